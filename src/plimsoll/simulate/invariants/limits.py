"""S5: no more pods are disrupted within a period than the limits allow, nodes that were lost by themselves included."""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json, controller_of, holds, name_of, uid_of
from plimsoll.embedded_cluster.api.storage import Change
from plimsoll.simulate.invariants.observed import never_ran
from plimsoll.simulate.invariants.request import Call
from plimsoll.simulate.invariants.rule import Rule

# A loss of the last moment cannot have been heard of yet.
_NEWS = timedelta(seconds=1)


class _Disrupted(NamedTuple):
    at: datetime
    owner: str
    pod: str
    ours: bool


class Limits(Rule):
    sees = (kinds.NODES.storage_key,)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._recent: deque[_Disrupted] = deque()

    def evicted(self, pod: Json, call: Call) -> None:  # noqa: ARG002
        if never_ran(pod):
            return
        now, limits = self.now, self.sight.config.operator.disruption_limits
        while self._recent and self._recent[0].at <= now - limits.period:
            self._recent.popleft()
        this = _Disrupted(now, self._owner(pod), uid_of(pod), ours=True)
        counted = [one for one in self._recent if one.pod != this.pod and (one.ours or one.at <= now - _NEWS)]
        counted.append(this)
        self._recent.append(this)
        if len(counted) > limits.per_cluster:
            self.broken("S5", f"{len(counted)} pods were disrupted within {limits.period}, of {limits.per_cluster}")
        of_owner = sum(one.owner == this.owner for one in counted)
        if of_owner > limits.per_workload:
            self.broken(
                "S5", f"{of_owner} pods of one workload were disrupted within {limits.period}, of {limits.per_workload}"
            )

    def changed(self, change: Change, call: Call | None) -> None:  # noqa: ARG002
        before, after = change.before, change.object
        if before is None or not holds(before, "Ready") or (change.type != "DELETED" and holds(after, "Ready")):
            return
        known = {one.pod for one in self._recent}
        for pod in self.sight.storage.pods_on(name_of(after)):
            manager = controller_of(pod)
            daemon = manager is not None and manager["kind"] == "DaemonSet"
            if uid_of(pod) not in known and not never_ran(pod) and not daemon:
                self._recent.append(_Disrupted(self.now, self._owner(pod), uid_of(pod), ours=False))

    def _owner(self, pod: Json) -> str:
        workload = self.sight.workload_of(pod)
        return uid_of(workload if workload is not None else pod)
