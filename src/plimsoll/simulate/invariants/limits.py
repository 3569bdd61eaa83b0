"""S5: within a period no more pods are disrupted than the disruption limits allow, pods of lost nodes included."""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json, condition_true, controller_of, name_of, uid_of
from plimsoll.embedded_cluster.api.storage import ObjectChange
from plimsoll.simulate.invariants.observed import pod_never_ran
from plimsoll.simulate.invariants.request import OperatorRequest
from plimsoll.simulate.invariants.rule import Invariant

# The operator cannot know yet of a node lost within the last second.
_DELAY = timedelta(seconds=1)


class _Disrupted(NamedTuple):
    at: datetime
    owner: str
    pod: str
    ours: bool


class DisruptionLimitInvariant(Invariant):
    watched_kinds = (kinds.NODES.storage_key,)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._recent: deque[_Disrupted] = deque()

    def evicted(self, pod: Json, call: OperatorRequest) -> None:  # noqa: ARG002
        if pod_never_ran(pod):
            return
        now, limits = self.now, self.observed.config.operator.disruption_limits
        while self._recent and self._recent[0].at <= now - limits.period:
            self._recent.popleft()
        this = _Disrupted(now, self._owner(pod), uid_of(pod), ours=True)
        counted = [one for one in self._recent if one.pod != this.pod and (one.ours or one.at <= now - _DELAY)]
        counted.append(this)
        self._recent.append(this)
        if len(counted) > limits.per_cluster:
            self.violated(
                "S5",
                f"{len(counted)} pods were disrupted within {limits.period}; the limit is {limits.per_cluster}",
            )
        of_owner = sum(one.owner == this.owner for one in counted)
        if of_owner > limits.per_workload:
            self.violated(
                "S5",
                f"{of_owner} pods of one workload were disrupted within {limits.period}; the limit is {limits.per_workload}",
            )

    def changed(self, change: ObjectChange, call: OperatorRequest | None) -> None:  # noqa: ARG002
        before, after = change.before, change.object
        if (
            before is None
            or not condition_true(before, "Ready")
            or (change.type != "DELETED" and condition_true(after, "Ready"))
        ):
            return
        known = {one.pod for one in self._recent}
        for pod in self.observed.storage.pods_on(name_of(after)):
            manager = controller_of(pod)
            daemon = manager is not None and manager["kind"] == "DaemonSet"
            if uid_of(pod) not in known and not pod_never_ran(pod) and not daemon:
                self._recent.append(_Disrupted(self.now, self._owner(pod), uid_of(pod), ours=False))

    def _owner(self, pod: Json) -> str:
        workload = self.observed.workload_of(pod)
        return uid_of(workload if workload is not None else pod)
