"""The HTML report of a simulation: one self-contained file with plots, a comparison table and the story. Called by `cli.simulate`.

The plots are inline SVG drawn here, so that the file needs no script and no network.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime
from html import escape

from msgspec import Struct

from plimsoll import __version__
from plimsoll.simulate.invariants import TimelineEntry
from plimsoll.simulate.report import FIGURES, Report, Sample, assumptions

_WIDTH, _HEIGHT = 720, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 12, 10, 26
# Distinguishable without colour by their dashes, and readable on white and on black.
_COLOURS = ("#0b6bcb", "#c25700", "#2e7d32", "#8e24aa", "#b71c1c", "#00838f")
_DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 4", "10 4")
_MOST_STORY_LINES = 2000
_STYLE = """
:root { color-scheme: light dark; --line: #8884; --dim: #777; --bad: #c62828; --good: #2e7d32; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; } td.difference { color: var(--dim); }
.scroll { overflow-x: auto; } figure { margin: 1rem 0; } figcaption { font-weight: 600; }
svg { width: 100%; height: auto; } svg.key { width: 30px; height: 10px; }
.axis { stroke: var(--line); } .label { font-size: 11px; fill: var(--dim); } .eviction { stroke: var(--bad); stroke-width: 1.5; }
.legend span { margin-right: 1.2rem; white-space: nowrap; } .violation { color: var(--bad); } .holds { color: var(--good); }
ol.story { font: 13px/1.6 ui-monospace, monospace; padding: 0; list-style: none; max-height: 40rem; overflow: auto; }
ol.story .why { color: var(--dim); } summary { cursor: pointer; }
"""


class SimulationRun(Struct, frozen=True):
    """The outcome of one configuration."""

    name: str
    report: Report
    timeline: Sequence[TimelineEntry]
    began: datetime


class _Plot(Struct, frozen=True):
    title: str
    value: Callable[[Sample], float]
    unit: str = ""
    evictions: bool = False  # whether evictions are marked
    whole: Callable[[Sample], float] | None = None  # a second, thin line, such as wanted replicas


_PLOTS = (
    _Plot(
        "Ready replicas (thin line: wanted); evictions are marked below", lambda one: one.pods_ready, evictions=True,
        whole=lambda one: one.pods_wanted,
    ),
    _Plot("Nodes (thin line: spot nodes)", lambda one: one.nodes, whole=lambda one: one.spot_nodes),
    _Plot("Spot share of running replicas", lambda one: 100 * one.spot_pods / max(1, one.spot_pods + one.other_pods), "%"),
    _Plot("Cost per hour of all nodes", lambda one: one.price_per_hour),
)  # fmt: skip


def html_report(runs: Sequence[SimulationRun], command: str, failures: Sequence[str]) -> str:
    """The whole file. failures: assertions that failed."""
    title = f"Simulation of {runs[0].report.hours:g} h"
    return "\n".join((
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body>',
        f"<h1>{escape(title)}</h1>",
        f"<p><code>{escape(command)}</code><br>Plimsoll {escape(__version__)}. {escape(assumptions([run.report for run in runs]))}</p>",
        *(f'<p class="violation">Assertion failed: {escape(one)}</p>' for one in failures),
        _comparison(runs),
        _legend(runs),
        *(_figure(plot, runs) for plot in _PLOTS),
        *(_violations(run) for run in runs),
        *(_story(run) for run in runs),
        "</body></html>\n",
    ))  # fmt: skip


def _comparison(runs: Sequence[SimulationRun]) -> str:
    heads = "".join(
        f"<th>{escape(run.name)}</th>" + ("<th>difference</th>" if number else "") for number, run in enumerate(runs)
    )
    rows = []
    for label, text, value in FIGURES:
        cells = f"<td>{escape(label)}</td>"
        for number, run in enumerate(runs):
            cells += f"<td>{escape(text(run.report))}</td>"
            if number:
                difference = _difference(value(runs[0].report), value(run.report)) if value is not None else ""
                cells += f'<td class="difference">{escape(difference)}</td>'
        rows.append(f"<tr>{cells}</tr>")
    head, body = f"<thead><tr><th></th>{heads}</tr></thead>", f"<tbody>{''.join(rows)}</tbody>"
    return f'<h2>Figures</h2><div class="scroll"><table>{head}{body}</table></div>'


def _difference(first: float | None, other: float | None) -> str:
    if first is None or other is None:
        return ""
    change = other - first
    share = f" ({100 * change / first:+.0f} %)" if first and change else ""
    return f"{change:+g}{share}" if abs(change) < 1e-9 or change == int(change) else f"{change:+.2f}{share}"


def _legend(runs: Sequence[SimulationRun]) -> str:
    parts = [
        f'<span><svg viewBox="0 0 30 10" class="key"><line x1="0" x2="30" y1="5" y2="5" {_stroke(number, 2)}/></svg> '
        f"{escape(run.name)}</span>"
        for number, run in enumerate(runs)
    ]
    return f'<h2>Over time</h2><p class="legend">{"".join(parts)}</p>'


def _figure(plot: _Plot, runs: Sequence[SimulationRun]) -> str:
    seconds = max(run.report.hours for run in runs) * 3600 or 1.0
    lines = [plot.value] if plot.whole is None else [plot.value, plot.whole]
    top = _nice(max((line(one) for run in runs for one in run.report.samples for line in lines), default=1.0))
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM

    def x(at: float) -> float:
        return _LEFT + (right - _LEFT) * min(1.0, at / seconds)

    def y(value: float) -> float:
        return bottom - (bottom - _TOP) * value / top

    parts = []
    for share in (0.0, 0.5, 1.0):
        parts.append(
            f'<line class="axis" x1="{_LEFT}" x2="{right}" y1="{y(top * share):.1f}" y2="{y(top * share):.1f}"/>'
        )
        parts.append(
            f'<text class="label" x="{_LEFT - 6}" y="{y(top * share) + 4:.1f}" text-anchor="end">{top * share:g}{plot.unit}</text>'
        )
    parts += [
        f'<text class="label" x="{x(hour * 3600):.1f}" y="{_HEIGHT - 8}" text-anchor="middle">{hour:g} h</text>'
        for hour in _ticks(seconds / 3600)
    ]
    for number, run in enumerate(runs):
        for line, width in zip(lines, (2.0, 0.8), strict=False):
            path = _steps([(x(one.at_seconds), y(line(one))) for one in run.report.samples], right)
            parts.append(f'<path d="{path}" fill="none" {_stroke(number, width)}/>')
        if plot.evictions:
            parts += [
                f'<line class="eviction" x1="{x(at):.1f}" x2="{x(at):.1f}" y1="{bottom - 7}" y2="{bottom}"><title>'
                f"{escape(run.name)}: eviction at {elapsed_text(at)}</title></line>"
                for at in run.report.evictions_at_seconds
            ]
    label = f"{plot.title}; from 0 to {seconds / 3600:g} hours"
    return (
        f"<figure><figcaption>{escape(plot.title)}</figcaption>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg></figure>'
    )


def _stroke(number: int, width: float) -> str:
    return f'stroke="{_COLOURS[number % 6]}" stroke-width="{width}" stroke-dasharray="{_DASHES[number % 6]}"'


def _steps(points: Sequence[tuple[float, float]], right: float) -> str:
    """A step line: samples are recorded when a value changes."""
    if not points:
        return ""
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in points[1:])
    return f"{path}H{right:.1f}"


def _nice(value: float) -> float:
    """The next round number at or above a value."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if value <= step * power * (1 + 1e-9))


def _ticks(hours: float) -> list[float]:
    step = next((one for one in (0.25, 0.5, 1, 2, 3, 6, 12, 24) if hours / one <= 8), 24 * math.ceil(hours / 24 / 8))
    return [number * step for number in range(int(hours / step) + 1)]


def _violations(run: SimulationRun) -> str:
    if not run.report.violations:
        return f'<p class="holds">{escape(run.name)}: no invariant violated.</p>'
    items = "".join(f"<li>{escape(str(one))}</li>" for one in run.report.violations[:100])
    return f'<p class="violation">{escape(run.name)}: {len(run.report.violations)} violations</p><ul class="violation">{items}</ul>'


def _story(run: SimulationRun) -> str:
    lines = run.timeline[:_MOST_STORY_LINES]
    items = "".join(
        f"<li>{elapsed_text((one.at - run.began).total_seconds())} {escape(one.what)}"
        + (f' <span class="why">{escape(one.why)}</span>' if one.why else "")
        + "</li>"
        for one in lines
    )
    more = f"<p>{len(run.timeline) - len(lines)} more lines</p>" if len(run.timeline) > len(lines) else ""
    summary = f"<summary>Story: {escape(run.name)} ({len(run.timeline)} lines)</summary>"
    return f'<details>{summary}<ol class="story">{items}</ol>{more}</details>'


def elapsed_text(seconds: float) -> str:
    """Time since the start of the scenario, such as 1:05:00; negative during the warm-up."""
    sign, whole = ("-" if seconds < 0 else ""), abs(round(seconds))
    return f"{sign}{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
