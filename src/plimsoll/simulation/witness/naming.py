"""S8: a destructive act names a UID or an instance id, never only a name."""

from __future__ import annotations

from plimsoll.simulation.witness.call import Call
from plimsoll.simulation.witness.rule import Rule


class Naming(Rule):
    def asked(self, call: Call) -> None:
        if call.destroys and not call.uid:
            self.broken("S8", f"a destructive act names no UID: {call}")

    def given_back(self, who: str, machine_id: str) -> None:
        if not machine_id:
            self.broken("S8", f"{who} gives back a machine without its id")
