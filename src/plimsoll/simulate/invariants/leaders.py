"""S8: a destructive act names a UID or an instance id, never only a name."""

from __future__ import annotations

from typing import Any

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import at, name_of, namespace_of
from plimsoll.embedded_cluster.api.storage import Change
from plimsoll.simulate.invariants.request import Call
from plimsoll.simulate.invariants.rule import Rule


class Naming(Rule):
    def asked(self, call: Call) -> None:
        if call.destroys and not call.uid:
            self.broken("S8", f"a destructive act names no UID: {call}")

    def given_back(self, who: str, machine_id: str) -> None:
        if not machine_id:
            self.broken("S8", f"{who} gives back a machine without its id")


# S9: what a former leader still writes carries preconditions that make it harmless.

# What every process may write at any time: it tells, and decides nothing.
_HARMLESS = ("events", "leases")


class Leaders(Rule):
    sees = (kinds.LEASES.storage_key,)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._leader = ""
        self.late_writes = 0

    def changed(self, change: Change, call: Call | None) -> None:  # noqa: ARG002
        operator = self.sight.config.operator
        ours = (operator.namespace, operator.leader_election.lease_name)
        if (namespace_of(change.object), name_of(change.object)) == ours and change.type != "DELETED":
            # One that gives its lease back stays the last leader until another takes it.
            self._leader = at(change.object, "spec", "holderIdentity", default="") or self._leader

    def asked(self, call: Call) -> None:
        if not self._leader or call.who == self._leader or not call.writes or call.plural in _HARMLESS:
            return
        self.late_writes += 1
        named = bool(call.uid or call.resource_version)
        if call.method == "POST" and not call.part:
            named = bool(at(call.body, "metadata", "name", default=""))  # a second one of the name is refused
        if not named:
            self.broken("S9", f"{self._leader} leads, and this could do harm: {call}")
