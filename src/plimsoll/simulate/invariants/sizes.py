"""S7: a group has neither fewer machines than its minimum by our doing, nor more than its maximum. S10: one machine per need."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json, at, holds, name_of, namespace_of, terminating, uid_of
from plimsoll.embedded_cluster.api.storage import Change
from plimsoll.providers.protocol import MachineRequest
from plimsoll.simulate.custom_kinds import NODE_GROUPS, VPSIE_NODES
from plimsoll.simulate.invariants.machines import key_of_order, machines
from plimsoll.simulate.invariants.request import Call
from plimsoll.simulate.invariants.rule import Rule

# A bound that someone has just moved: what was decided before may still arrive. A provider is waited for two minutes.
_UNDER_WAY = timedelta(seconds=150)


class Sizes(Rule):
    sees = (NODE_GROUPS.storage_key, kinds.CONFIGMAPS.storage_key)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._bounds: dict[str, list[tuple[datetime, int, int]]] = {}  # by group: since when, minimum and maximum
        self._ordered: set[str] = set()  # keys of all machines ever ordered
        self._given_back: set[str] = set()

    def changed(self, change: Change, call: Call | None) -> None:  # noqa: ARG002
        obj = change.object
        if change.collection == NODE_GROUPS.storage_key:
            least, most = at(obj, "spec", "minNodes", default=0), at(obj, "spec", "maxNodes", default=0)
            known = self._bounds.setdefault(_group(obj), [])
            if not known or known[-1][1:] != (least, most):
                known.append((self.now, least, most))
        elif change.type == "ADDED" and (key := key_of_order(obj)):
            if key in self._ordered:
                self.broken("S10", f"a second machine was made for {key}")
            self._ordered.add(key)

    def bought(self, who: str, request: MachineRequest) -> None:
        need = next((one for one in self.sight.cluster.all(VPSIE_NODES) if uid_of(one) == request.key), None)
        if need is None or name_of(need) != request.name:
            self.broken("S10", f"{who} orders {request.name} under {request.key}, and no VPSieNode says so")
        others = [one for one in machines(self.sight) if one.group == request.group and one.key != request.key]
        # One whose VPSieNode someone deleted is on its way out, from that moment on.
        count = 1 + sum(not one.deleting and not self._wanted_gone(one.key) for one in others)
        most = max((most for _, _, most in self._lately(request.group)), default=None)
        if most is not None and count > most:
            self.broken("S7", f"group {request.group} gets machine number {count}, and may have {most}")

    def given_back(self, who: str, machine_id: str) -> None:
        there = list(machines(self.sight))
        this = next((one for one in there if one.key == machine_id), None)
        # Asking once more for what is under way takes nothing away; a machine that never became a node was none of the group's.
        if this is None or this.deleting or machine_id in self._given_back:
            return
        self._given_back.add(machine_id)
        if this.node is None or not holds(this.node, "Ready"):
            return
        group = next((one for one in self.sight.cluster.all(NODE_GROUPS) if _group(one) == this.group), None)
        if group is None or terminating(group) or self._wanted_gone(machine_id):
            return
        left = sum(one.group == this.group and not one.deleting and one.key != machine_id for one in there)
        least = min((least for _, least, _ in self._lately(this.group)), default=0)
        if left < least:
            self.broken("S7", f"{who} leaves group {this.group} {left} machines, and it must keep {least}")

    def _wanted_gone(self, key: str) -> bool:
        """Whether someone deleted the VPSieNode: then it is not our doing."""
        return any(uid_of(one) == key and terminating(one) for one in self.sight.cluster.all(VPSIE_NODES))

    def _lately(self, group: str) -> list[tuple[datetime, int, int]]:
        known = self._bounds.get(group, [])
        ends = [since for since, _, _ in known[1:]]
        return [one for one, end in zip(known, [*ends, self.now], strict=True) if end >= self.now - _UNDER_WAY]


def _group(group: Json) -> str:
    return f"{namespace_of(group)}.{name_of(group)}"
