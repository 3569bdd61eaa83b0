"""The latest decisions and actions with their reasons, as in the audit log."""

from __future__ import annotations

from collections import deque
from datetime import datetime

from msgspec.structs import replace

from plimsoll.dashboard.records import DecisionRecord
from plimsoll.dashboard.workloads import is_deleted
from plimsoll.kube.types.resources import Key
from plimsoll.runtime.audit import AuditRecord
from plimsoll.runtime.decision import Decision

KEPT = 500


class Timeline:
    def __init__(self) -> None:
        self._kept: deque[DecisionRecord] = deque(maxlen=KEPT)
        self._new: deque[DecisionRecord] = deque(maxlen=KEPT)
        self._last_reason: dict[tuple[str, Key], str] = {}
        self._alike: tuple[str, ...] = ()  # grouping key of the newest entry
        self._first_why = ""
        self._more = 0

    @property
    def kept(self) -> list[DecisionRecord]:
        """The entries without the unsent ones, which clients get with the next change."""
        return list(self._kept)

    @property
    def has_news(self) -> bool:
        return bool(self._new)

    def take_news(self) -> list[DecisionRecord]:
        news = list(self._new)
        self._new.clear()
        self._kept.extend(news)
        return news

    def recorded(self, record: AuditRecord) -> None:
        """Add an action that was or would have been carried out. Its payload is not shown: a patch may contain anything.

        Equal actions on one key are grouped: a thousand deletion costs of one workload would displace everything else.
        """
        result = f"{record.result}: {record.detail}" if record.detail else record.result
        entry = DecisionRecord(record.time, record.controller, record.target, record.action, record.why, result)
        alike = (record.controller, record.key, record.action, record.reason, result)
        if self._new and self._alike == alike:
            self._more += 1
            why = f"{self._first_why}; and {self._more} more like it"
            self._new[-1] = replace(entry, object=record.key, why=why)
            return
        self._add(entry)
        self._alike, self._first_why, self._more = alike, record.why, 0

    def decided(self, controller: str, key: Key, decision: Decision, at: datetime) -> None:
        """Add a decision without actions when its reason changes, not on every reconcile."""
        before = self._last_reason.get((controller, key))
        if is_deleted(decision):
            self._last_reason.pop((controller, key), None)
            return
        self._last_reason[controller, key] = decision.reason.code
        if decision.actions or before == decision.reason.code:
            return
        if before is None and not decision.blockers and not decision.problems:
            return  # "nothing to do" at the first reconcile is not worth an entry
        result = "held up" if decision.blockers else "invalid" if decision.problems else "settled"
        self._add(DecisionRecord(at, controller, str(key), decision.reason.code, decision.reason.message, result))

    def _add(self, record: DecisionRecord) -> None:
        self._alike = ()
        self._new.append(record)
