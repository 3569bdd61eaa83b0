"""Not enough of something, said so that a reader knows what to do: asked for, there, blocked, taken, and by whom."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

LONGEST_NOTE = 1_024  # characters of an event


class Shortage(Struct, frozen=True):
    code: str  # InsufficientDrives, InsufficientDriveCapacity, PortAllocationFailed
    message: str


def among(taken: Mapping[str, int]) -> str:
    """Who holds how much, the greatest first, as far as an event has room for it."""
    if not taken:
        return ""
    ordered = sorted(taken.items(), key=lambda entry: (-entry[1], entry[0]))
    text, told = "; taken by ", 0
    for holder, amount in ordered:
        part = f"{', ' if told else ''}{holder} ({amount})"
        if len(text) + len(part) > LONGEST_NOTE - 400:  # the sentence before it, and the end of this one
            break
        text += part
        told += 1
    return text if told == len(ordered) else f"{text} and {len(ordered) - told} more"
