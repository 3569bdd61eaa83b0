"""How values are written: parses text into values, formats values as text, and explains what is wrong with a text.

Every source meets here. A file, a variable and a flag that say the same are read the same and refused with the same words.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal, Protocol, get_args, get_origin

from msgspec import Meta

from plimsoll.kube.types.durations import format_duration, parse_duration

_LONGEST_SHOWN = 80


def quoted(text: str) -> str:
    """Quote a value for an error message: on one line and shortened."""
    text = text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"
    return '"' + "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text) + '"'


def as_word(text: str) -> str:
    """A key for an error message: unquoted if it could be a key."""
    return text if re.fullmatch(r"[\w.-]{1,80}", text, re.ASCII) else quoted(text)


def nearest(word: str, valid: Iterable[str]) -> str | None:
    """The known word that was probably meant: another spelling of it, or one with a typo or two."""
    by_letters = {_letters(candidate): candidate for candidate in valid}
    match = difflib.get_close_matches(_letters(word), by_letters, n=1, cutoff=0.7)
    return by_letters[match[0]] if match else None


def _letters(word: str) -> str:
    return re.sub(r"[^a-z0-9.]", "", word.lower())


class Form(Protocol):
    """One kind of value. `read` raises ValueError with a sentence that says what was found and what is expected."""

    @property
    def expected(self) -> str: ...

    def read(self, text: str) -> Any: ...

    def plain(self, value: Any) -> Any:
        """The value as YAML and JSON hold it."""
        ...


@dataclass(frozen=True)
class Switch:
    expected = "true or false"

    def read(self, text: str) -> bool:
        word = text.lower()
        if word not in ("true", "false"):
            raise ValueError(f"{quoted(text)} is neither true nor false")
        return word == "true"

    def plain(self, value: bool) -> bool:
        return value


@dataclass(frozen=True)
class Number:
    lowest: int | None = None
    highest: int | None = None

    @property
    def expected(self) -> str:
        match self.lowest, self.highest:
            case None, None:
                return "a whole number"
            case lowest, None:
                return f"a whole number of at least {lowest}"
            case None, highest:
                return f"a whole number of at most {highest}"
            case lowest, highest:
                return f"a whole number from {lowest} to {highest}"

    def read(self, text: str) -> int:
        # Nineteen digits hold every useful number; int() is slow for very long texts.
        if not re.fullmatch(r"-?(0|[1-9][0-9]{0,18})", text):
            raise ValueError(f"{quoted(text)} is not {self.expected}")
        number = int(text)
        if (self.lowest is not None and number < self.lowest) or (self.highest is not None and number > self.highest):
            raise ValueError(f"{text} is not {self.expected}")
        return number

    def plain(self, value: int) -> int:
        return value


@dataclass(frozen=True)
class Decimal:
    lowest: float = 0.0

    @property
    def expected(self) -> str:
        return f"a number of at least {self.lowest:g}"

    def read(self, text: str) -> float:
        if not re.fullmatch(r"-?[0-9]{1,15}(\.[0-9]{1,15})?", text) or float(text) < self.lowest:
            raise ValueError(f"{quoted(text)} is not {self.expected}")
        return float(text)

    def plain(self, value: float) -> float:
        return value


@dataclass(frozen=True)
class Text:
    expected: str = "a text"
    pattern: str = ""
    min_length: int = 0
    numbers: bool = False  # True: a YAML number is read as its text

    def read(self, text: str) -> str:
        if len(text) < self.min_length or not re.search(self.pattern, text) or "\0" in text:
            raise ValueError(f"{quoted(text)} is not {self.expected}")
        return text

    def plain(self, value: str) -> str:
        return value


@dataclass(frozen=True)
class Choice:
    words: tuple[str, ...]

    @property
    def expected(self) -> str:
        return f"one of {', '.join(self.words)}"

    def read(self, text: str) -> str:
        if text not in self.words:
            guess = nearest(text, self.words)
            raise ValueError(f"{quoted(text)} is not {self.expected}" + (f"; did you mean {guess}?" if guess else ""))
        return text

    def plain(self, value: str) -> str:
        return value


@dataclass(frozen=True)
class Span:
    at_least: timedelta
    whole_seconds: bool = False

    @property
    def expected(self) -> str:
        kind = "a duration in whole seconds," if self.whole_seconds else "a duration of"
        return f"{kind} at least {format_duration(self.at_least)}"

    def read(self, text: str) -> timedelta:
        try:
            span = parse_duration(text)
        except ValueError as error:
            raise ValueError(f"{error} ({self.expected} is expected)") from None
        if span < self.at_least or (self.whole_seconds and span.microseconds):
            raise ValueError(f"{quoted(text)} is not {self.expected}")
        return span

    def plain(self, value: timedelta) -> str:
        return format_duration(value)


@dataclass(frozen=True)
class ListOf:
    item: Form

    @property
    def expected(self) -> str:
        return f"a list, each item {self.item.expected}"

    def read(self, text: str) -> tuple[Any, ...]:
        """Parse items separated by commas, as in a variable or a flag. An empty text is an empty list."""
        items, refusals = [], []
        for part in text.split(",") if text.strip() else ():
            try:
                items.append(self.item.read(part.strip()))
            except ValueError as error:
                refusals.append(str(error))
        if refusals:
            raise ValueError("; ".join(refusals))
        return self.of(items)

    def of(self, items: Sequence[Any]) -> tuple[Any, ...]:
        for position, item in enumerate(items):
            if item in items[:position]:
                raise ValueError(f"{quoted(str(item))} is in the list twice")
        return tuple(items)

    def plain(self, value: tuple[Any, ...]) -> list[Any]:
        return [self.item.plain(item) for item in value]


def form_of(annotation: Any) -> Form:
    """The form for the type of a field."""
    notes: list[Meta] = []
    if get_origin(annotation) is Annotated:
        annotation, *notes = get_args(annotation)
    if annotation is bool:
        return Switch()
    if annotation is int:
        return Number(_first(notes, "ge"), _first(notes, "le"))
    if annotation is str:
        return Text(
            _first(notes, "title") or "a text",
            _first(notes, "pattern") or "",
            _first(notes, "min_length") or 0,
            numbers=(_first(notes, "extra") or {}).get("numbers", False),
        )
    if annotation is float:
        return Decimal(_first(notes, "ge"))
    if annotation is timedelta:
        bounds = _first(notes, "extra")
        return Span(parse_duration(bounds["at_least"]), bounds["whole_seconds"])
    if get_origin(annotation) is Literal:
        return Choice(get_args(annotation))
    if get_origin(annotation) is tuple and get_args(annotation)[1:] == (...,):
        return ListOf(form_of(get_args(annotation)[0]))
    raise TypeError(f"a configuration key of type {annotation} has no written form")


def description_of(annotation: Any) -> str:
    return next((note.description for note in get_args(annotation)[1:] if note.description), "")


def _first(notes: list[Meta], name: str) -> Any:
    return next((value for note in notes if (value := getattr(note, name)) is not None), None)
