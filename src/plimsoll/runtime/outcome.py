"""Outcomes: what the actuator reports back about a decision's actions."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from plimsoll.kube.types.meta import KubeObject
from plimsoll.providers.protocol import Machine
from plimsoll.runtime.decision import Action, Blocker

# would: read-only mode. refused: a check of the actuator or a budget said no. gone, conflict: the object changed meanwhile.
# unknown: the reply was lost.
Status = Literal["done", "would", "refused", "gone", "conflict", "failed", "unknown"]


class ActionResult(Struct, frozen=True):
    """The result of one action."""

    action: Action
    status: Status
    detail: str = ""
    blocker: Blocker | None = None
    written: KubeObject | None = None  # the object as it is after the write, where that is known
    machine: Machine | None = None  # the machine that a provider created


class Outcome(Struct, frozen=True):
    """The results of a decision's actions. Any status but `done` and `would` means that the key is reconciled again."""

    results: tuple[ActionResult, ...] = ()

    @property
    def blockers(self) -> tuple[Blocker, ...]:
        return tuple(result.blocker for result in self.results if result.blocker)

    @property
    def failed(self) -> bool:
        """Whether an action failed in a way that a retry with back-off may fix."""
        return any(result.status in ("failed", "unknown") for result in self.results)

    @property
    def overtaken(self) -> bool:
        """Whether an object changed meanwhile: decide again once the view shows it."""
        return any(result.status in ("gone", "conflict") for result in self.results)
