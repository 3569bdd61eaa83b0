"""What became of a decision, as the door tells it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from plimsoll.kube.types.core import KubeObject
from plimsoll.providers.protocol import Machine
from plimsoll.runtime.decision import Action, Blocker

# would: read-only. refused: the door or a budget says no. gone, conflict: the world had moved on. unknown: the reply is lost.
Status = Literal["done", "would", "refused", "gone", "conflict", "failed", "unknown"]


class Result(Struct, frozen=True):
    """What became of one action."""

    action: Action
    status: Status
    detail: str = ""
    blocker: Blocker | None = None
    written: KubeObject | None = None  # the object as it is after the write, where that is known
    machine: Machine | None = None  # that a provider has made


class Outcome(Struct, frozen=True):
    """What became of a decision. Anything but done and would asks for another look."""

    results: tuple[Result, ...] = ()

    @property
    def blockers(self) -> tuple[Blocker, ...]:
        return tuple(result.blocker for result in self.results if result.blocker)

    @property
    def failed(self) -> bool:
        """Something went wrong that may go right when tried again, later each time."""
        return any(result.status in ("failed", "unknown") for result in self.results)

    @property
    def overtaken(self) -> bool:
        """The world had moved on: decide again as soon as the view has."""
        return any(result.status in ("gone", "conflict") for result in self.results)
