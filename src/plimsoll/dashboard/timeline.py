"""What was done, refused or held up lately, and why: the newest few hundred, as the audit trail has them."""

from __future__ import annotations

from collections import deque
from datetime import datetime

from msgspec.structs import replace

from plimsoll.dashboard.records import DecisionRecord
from plimsoll.dashboard.workloads import is_gone
from plimsoll.kube.types.resources import Key
from plimsoll.runtime.audit import AuditRecord
from plimsoll.runtime.decision import Decision

KEPT = 500


class Timeline:
    def __init__(self) -> None:
        self._kept: deque[DecisionRecord] = deque(maxlen=KEPT)
        self._new: deque[DecisionRecord] = deque(maxlen=KEPT)
        self._last_reason: dict[tuple[str, Key], str] = {}
        self._alike: tuple[str, ...] = ()  # what the newest entry is about, and how many it stands for beside the first
        self._first_why = ""
        self._more = 0

    @property
    def kept(self) -> list[DecisionRecord]:
        """Without the news: who gets the whole picture now gets those with the next change."""
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
        """Something was done, or would have been. What was written is not told: a patch may hold anything.

        A workload whose thousand pods get a value each is one entry: it would push out everything else.
        """
        result = f"{record.result}: {record.detail}" if record.detail else record.result
        told = DecisionRecord(record.time, record.controller, record.target, record.action, record.why, result)
        alike = (record.controller, record.key, record.action, record.reason, result)
        if self._new and self._alike == alike:
            self._more += 1
            why = f"{self._first_why}; and {self._more} more like it"
            self._new[-1] = replace(told, object=record.key, why=why)
            return
        self._add(told)
        self._alike, self._first_why, self._more = alike, record.why, 0

    def decided(self, controller: str, key: Key, decision: Decision, at: datetime) -> None:
        """A decision to do nothing is told when it begins to say something else, not at every look."""
        before = self._last_reason.get((controller, key))
        if is_gone(decision):
            self._last_reason.pop((controller, key), None)
            return
        self._last_reason[controller, key] = decision.reason.code
        if decision.actions or before == decision.reason.code:
            return
        if before is None and not decision.blockers and not decision.problems:
            return  # that nothing was to be done at the first look is no news, a thousand times over
        result = "held up" if decision.blockers else "invalid" if decision.problems else "settled"
        self._add(DecisionRecord(at, controller, str(key), decision.reason.code, decision.reason.message, result))

    def _add(self, record: DecisionRecord) -> None:
        self._alike = ()
        self._new.append(record)
