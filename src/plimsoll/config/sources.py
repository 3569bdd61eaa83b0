"""What one source says: values with the place where each was written, and everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from plimsoll.config.settings import Setting


@dataclass(frozen=True)
class ConfigProblem:
    """One thing that is wrong, for the person who wrote it."""

    origin: str  # plimsoll.yaml:4:3, PLIMSOLL_WEB_PORT, --controllers
    key: str  # empty where the source as a whole is wrong
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.origin, self.key, self.message) if part)


class ConfigurationError(Exception):
    """The configuration cannot be used. Carries every reason, not only the first."""

    def __init__(self, problems: Sequence[ConfigProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in problems))


@dataclass(frozen=True)
class SourcedValue:
    """A value, and where it was written."""

    value: Any
    origin: str


@dataclass
class SourceValues:
    """What was found in a source, key by key."""

    values: dict[str, SourcedValue] = field(default_factory=dict)
    problems: list[ConfigProblem] = field(default_factory=list)

    def take(self, setting: Setting, text: str, origin: str) -> None:
        try:
            self.values[setting.key] = SourcedValue(setting.form.read(text), origin)
        except ValueError as error:
            self.refuse(origin, setting.key, str(error))

    def refuse(self, origin: str, key: str, message: str) -> None:
        self.problems.append(ConfigProblem(origin, key, message))
