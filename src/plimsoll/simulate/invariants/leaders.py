"""S8: a destructive request carries a UID or an instance id, never only a name. S9: a late write of a former leader carries
preconditions that make it harmless."""

from __future__ import annotations

from typing import Any

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import at, name_of, namespace_of
from plimsoll.embedded_cluster.api.storage import ObjectChange
from plimsoll.simulate.invariants.request import OperatorRequest
from plimsoll.simulate.invariants.rule import Invariant


class UidPreconditionInvariant(Invariant):
    def request_received(self, call: OperatorRequest) -> None:
        if call.destroys and not call.uid:
            self.violated("S8", f"destructive request without a UID precondition: {call}")

    def machine_deleted(self, who: str, machine_id: str) -> None:
        if not machine_id:
            self.violated("S8", f"{who} deletes a machine without an instance id")


# Every process may write these at any time: they decide nothing.
_HARMLESS = ("events", "leases")


class LeadershipInvariant(Invariant):
    watched_kinds = (kinds.LEASES.storage_key,)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._leader = ""
        self.late_writes = 0

    def changed(self, change: ObjectChange, call: OperatorRequest | None) -> None:  # noqa: ARG002
        operator = self.observed.config.operator
        ours = (operator.namespace, operator.leader_election.lease_name)
        if (namespace_of(change.object), name_of(change.object)) == ours and change.type != "DELETED":
            # A process that releases the lease counts as the leader until another one acquires it.
            self._leader = at(change.object, "spec", "holderIdentity", default="") or self._leader

    def request_received(self, call: OperatorRequest) -> None:
        if not self._leader or call.who == self._leader or not call.writes or call.plural in _HARMLESS:
            return
        self.late_writes += 1
        named = bool(call.uid or call.resource_version)
        if call.method == "POST" and not call.part:
            named = bool(
                at(call.body, "metadata", "name", default="")
            )  # the API server refuses a second object of that name
        if not named:
            self.violated("S9", f"{self._leader} leads; a write of another process has no precondition: {call}")
