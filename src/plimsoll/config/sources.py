"""The values of one configuration source, each with its origin, and the problems of that source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from plimsoll.config.settings import Setting


@dataclass(frozen=True)
class ConfigProblem:
    """One problem, described for the person who wrote the value."""

    origin: str  # plimsoll.yaml:4:3, PLIMSOLL_WEB_PORT, --controllers
    key: str  # empty if the whole source is invalid
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.origin, self.key, self.message) if part)


class ConfigurationError(Exception):
    """The configuration is invalid. Carries all problems, not only the first."""

    def __init__(self, problems: Sequence[ConfigProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in problems))


@dataclass(frozen=True)
class SourcedValue:
    """A value and its origin."""

    value: Any
    origin: str


@dataclass
class SourceValues:
    """The values found in a source, by key."""

    values: dict[str, SourcedValue] = field(default_factory=dict)
    problems: list[ConfigProblem] = field(default_factory=list)

    def take(self, setting: Setting, text: str, origin: str) -> None:
        try:
            self.values[setting.key] = SourcedValue(setting.form.read(text), origin)
        except ValueError as error:
            self.refuse(origin, setting.key, str(error))

    def refuse(self, origin: str, key: str, message: str) -> None:
        self.problems.append(ConfigProblem(origin, key, message))
