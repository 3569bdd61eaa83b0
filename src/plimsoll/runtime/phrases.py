"""Small pieces of English for messages and events of the controllers."""

from __future__ import annotations


def nth(number: int) -> str:
    """An ordinal number: 1st, 2nd, 3rd, 4th, 11th, 21st."""
    if 10 <= number % 100 <= 20:
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: "1 pod", "3 pods"."""
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"
