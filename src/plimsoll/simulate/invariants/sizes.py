"""S7: the operator neither shrinks a group below its minimum nor grows it above its maximum. S10: one machine per VPSieNode."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import (
    Json,
    at,
    condition_true,
    name_of,
    namespace_of,
    terminating,
    uid_of,
)
from plimsoll.embedded_cluster.api.storage import ObjectChange
from plimsoll.providers.protocol import MachineRequest
from plimsoll.simulate.custom_kinds import NODE_GROUPS, VPSIE_NODES
from plimsoll.simulate.invariants.machines import cloud_machines, key_of_order
from plimsoll.simulate.invariants.request import OperatorRequest
from plimsoll.simulate.invariants.rule import Invariant

# After a user changes a bound, earlier decisions may still take effect: the operator waits two minutes for a provider.
_IN_FLIGHT = timedelta(seconds=150)


class GroupSizeInvariants(Invariant):
    watched_kinds = (NODE_GROUPS.storage_key, kinds.CONFIGMAPS.storage_key)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._bounds: dict[str, list[tuple[datetime, int, int]]] = {}  # by group: since when, minimum and maximum
        self._ordered: set[str] = set()  # keys of all machines ever ordered
        self._given_back: set[str] = set()

    def changed(self, change: ObjectChange, call: OperatorRequest | None) -> None:  # noqa: ARG002
        obj = change.object
        if change.collection == NODE_GROUPS.storage_key:
            least, most = at(obj, "spec", "minNodes", default=0), at(obj, "spec", "maxNodes", default=0)
            known = self._bounds.setdefault(_group(obj), [])
            if not known or known[-1][1:] != (least, most):
                known.append((self.now, least, most))
        elif change.type == "ADDED" and (key := key_of_order(obj)):
            if key in self._ordered:
                self.violated("S10", f"a second machine was created for {key}")
            self._ordered.add(key)

    def machine_ordered(self, who: str, request: MachineRequest) -> None:
        need = next((one for one in self.observed.cluster.all(VPSIE_NODES) if uid_of(one) == request.key), None)
        if need is None or name_of(need) != request.name:
            self.violated(
                "S10", f"{who} orders {request.name} with key {request.key}, but no VPSieNode has that name and UID"
            )
        others = [one for one in cloud_machines(self.observed) if one.group == request.group and one.key != request.key]
        # A machine whose VPSieNode is deleted no longer counts.
        count = 1 + sum(not one.deleting and not self._deletion_requested(one.key) for one in others)
        most = max((most for _, _, most in self._recent_bounds(request.group)), default=None)
        if most is not None and count > most:
            self.violated("S7", f"group {request.group} gets machine number {count}; maxNodes is {most}")

    def machine_deleted(self, who: str, machine_id: str) -> None:
        there = list(cloud_machines(self.observed))
        this = next((one for one in there if one.key == machine_id), None)
        # A repeated deletion changes nothing, and a machine that never became a node is not a member of the group.
        if this is None or this.deleting or machine_id in self._given_back:
            return
        self._given_back.add(machine_id)
        if this.node is None or not condition_true(this.node, "Ready"):
            return
        group = next((one for one in self.observed.cluster.all(NODE_GROUPS) if _group(one) == this.group), None)
        if group is None or terminating(group) or self._deletion_requested(machine_id):
            return
        left = sum(one.group == this.group and not one.deleting and one.key != machine_id for one in there)
        least = min((least for _, least, _ in self._recent_bounds(this.group)), default=0)
        if left < least:
            self.violated("S7", f"{who} leaves group {this.group} with {left} machines; minNodes is {least}")

    def _deletion_requested(self, key: str) -> bool:
        """Whether a user deleted the VPSieNode of the machine."""
        return any(uid_of(one) == key and terminating(one) for one in self.observed.cluster.all(VPSIE_NODES))

    def _recent_bounds(self, group: str) -> list[tuple[datetime, int, int]]:
        known = self._bounds.get(group, [])
        ends = [since for since, _, _ in known[1:]]
        return [one for one, end in zip(known, [*ends, self.now], strict=True) if end >= self.now - _IN_FLIGHT]


def _group(group: Json) -> str:
    return f"{namespace_of(group)}.{name_of(group)}"
