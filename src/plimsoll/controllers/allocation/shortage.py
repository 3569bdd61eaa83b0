"""A shortage of drives or ports, and the text that lists who holds them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

LONGEST_NOTE = 1_024  # characters; the API's limit for an event note


class Shortage(Struct, frozen=True):
    code: str  # InsufficientDrives, InsufficientDriveCapacity, PortAllocationFailed
    message: str


def holders_text(taken: Mapping[str, int]) -> str:
    """Who holds how much, largest first, cut to the length of an event note."""
    if not taken:
        return ""
    ordered = sorted(taken.items(), key=lambda entry: (-entry[1], entry[0]))
    text, told = "; taken by ", 0
    for holder, amount in ordered:
        part = f"{', ' if told else ''}{holder} ({amount})"
        if len(text) + len(part) > LONGEST_NOTE - 400:  # reserve for the sentence before and the end of this one
            break
        text += part
        told += 1
    return text if told == len(ordered) else f"{text} and {len(ordered) - told} more"
