"""The result of a benchmark: figures beside a peer's and beside our promises, for people and for programs."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """One measured value. Where a peer did the same work on the same machine, the ratio is what counts."""

    name: str
    unit: str
    ours: float
    peer: float | None = None
    # What we promise: ours as a multiple of the peer's, or ours itself.
    ratio_at_most: float | None = None
    ratio_at_least: float | None = None
    at_most: float | None = None
    at_least: float | None = None

    @property
    def ratio(self) -> float | None:
        return self.ours / self.peer if self.peer else None

    @property
    def promise(self) -> str:
        bounds = (("≤", self.ratio_at_most, " ×"), ("≥", self.ratio_at_least, " ×"))
        limits = (("≤", self.at_most, f" {self.unit}"), ("≥", self.at_least, f" {self.unit}"))
        return ", ".join(f"{sign} {bound:g}{unit}" for sign, bound, unit in (*bounds, *limits) if bound is not None)

    @property
    def kept(self) -> bool | None:
        """Whether the promise holds; None where there is none, or no peer to compare with."""
        comparisons = [
            (self.ratio, self.ratio_at_most, True),
            (self.ratio, self.ratio_at_least, False),
            (self.ours, self.at_most, True),
            (self.ours, self.at_least, False),
        ]
        answers = [
            value <= bound if upper else value >= bound
            for value, bound, upper in comparisons
            if value is not None and bound is not None
        ]
        return all(answers) if answers else None


@dataclass(frozen=True)
class Report:
    """All figures of one benchmark."""

    name: str
    work: str  # what was done, in a sentence
    figures: Sequence[Figure]
    peer: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)  # sizes, versions and other context

    @property
    def kept(self) -> bool:
        return all(figure.kept is not False for figure in self.figures)

    def as_json(self) -> dict[str, Any]:
        return {
            "benchmark": self.name,
            "work": self.work,
            "peer": self.peer,
            "kept": self.kept,
            "figures": {
                figure.name: {
                    "unit": figure.unit,
                    "ours": figure.ours,
                    "peer": figure.peer,
                    "ratio": figure.ratio,
                    "promise": figure.promise,
                    "kept": figure.kept,
                }
                for figure in self.figures
            },
            "facts": dict(self.facts),
            "machine": machine(),
        }

    def as_table(self) -> Table:
        table = Table(title=f"{self.name}: {self.work}", title_justify="left", caption_justify="left")
        table.caption = ", ".join(f"{name}: {value}" for name, value in {**self.facts, **machine()}.items())
        table.add_column("")
        table.add_column("ours", justify="right")
        if self.peer:
            table.add_column(self.peer, justify="right")
            table.add_column("ratio", justify="right")
        table.add_column("promise", justify="right")
        table.add_column("")
        for figure in self.figures:
            cells = [figure.name, _amount(figure.ours, figure.unit)]
            if self.peer:
                cells.append(_amount(figure.peer, figure.unit))
                cells.append(f"{figure.ratio:.3g} ×" if figure.ratio is not None else "")
            mark = {None: "", True: "[green]✓[/green]", False: "[red]✗ not kept[/red]"}[figure.kept]
            table.add_row(*cells, figure.promise, mark)
        return table

    def print(self, *, as_json: bool) -> None:
        if as_json:
            print(json.dumps(self.as_json(), ensure_ascii=False))
        else:
            # Without a terminal, wide enough for every column: a table in a log must not be cut.
            Console(width=None if sys.stdout.isatty() else 140).print(self.as_table())


def machine() -> dict[str, Any]:
    return {"cpus": os.cpu_count(), "python": platform.python_version(), "machine": platform.machine()}


def progress(text: str) -> None:
    """Report progress on stderr, apart from the result."""
    print(text, file=sys.stderr, flush=True)


def _amount(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    digits = 0 if abs(value) >= 100 else 2 if abs(value) < 10 else 1
    return f"{value:,.{digits}f} {unit}"
