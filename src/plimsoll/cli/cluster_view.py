"""The demo's terminal view: zones side by side, nodes as rows, pods as coloured cells, and the latest decisions. Called by `cli.demo`.

The view fits the terminal: the least important parts are left out first, and the keys are always visible.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from plimsoll.cli.invariant_text import describe_reason, describe_timeline
from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json, at, condition_true, name_of, namespace_of, terminating
from plimsoll.simulate.demo.player import DemoPlayer
from plimsoll.simulate.demo.scene import allocations, workload
from plimsoll.simulate.invariants.observed import DRAIN_TAINT, is_spot
from plimsoll.simulate.world import World

# Shapes beside colours, for people who cannot tell the colours apart.
_READY, _STARTING, _TERMINATING = "■", "□", "×"
# Readable on black and on white.
_SPOT, _ON_DEMAND = "dark_orange3", "dodger_blue1"
_ZONE = "topology.kubernetes.io/zone"
_FEWEST_DECISIONS = 3
_ROOM_FOR_REASONS = 10  # rows
# Only this many timeline entries are examined per frame, so that a demo left running overnight stays fast.
_LOOK_BACK = 200


class ClusterView:
    """A `rich` renderable; every frame is rendered at the terminal's current size."""

    def __init__(self, world: World, player: DemoPlayer, footer: Sequence[RenderableType] = ()) -> None:
        """footer: lines at the bottom, the most important first; the caller may append lines later."""
        self._world = world
        self._player = player
        self._footer = footer

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = options.height or console.size.height

        def lines(*parts: RenderableType) -> int:
            free = options.copy()
            free.height = None
            return sum(len(console.render_lines(part, free)) for part in parts)

        headline, zones = _headline(self._world, self._player), _zones(self._world)
        below, footer = _below_nodes(self._world), list(self._footer)
        explained = _explained(self._player)
        # In a small terminal the least important parts are left out first.
        if lines(headline, *explained, zones, *below, *footer) > height:
            footer = footer[:1]
        if lines(headline, *explained, zones, *below, *footer) > height:
            explained = []
        if lines(headline, zones, *below, *footer) > height:
            below = []
        top = [headline, *explained, zones, *below]
        left = height - lines(*top, *footer)
        chapters = _chapters(self._player)
        if self._player.results and left - lines(chapters) >= 2 * _FEWEST_DECISIONS + 2:
            top.append(chapters)
            left -= lines(chapters)
        if left > _FEWEST_DECISIONS:
            top.append(_decisions(self._world, console, options.max_width, left - 2))
        yield Group(*top, *footer)


def _headline(world: World, player: DemoPlayer) -> RenderableType:
    violations = world.invariants.violations
    verdict = (
        Text(f"{len(violations)} violations", "bold red") if violations else Text("no invariant violated", "green")
    )
    return _two_ends(Text(player.heading, "bold"), Text.assemble(f"{world.invariants.evictions} evictions, ", verdict))


def _two_ends(left: Text, right: Text) -> RenderableType:
    line = Table.grid(expand=True, padding=(0, 1, 0, 0))
    line.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    line.add_column(justify="right", no_wrap=True)
    line.add_row(left, right)
    return line


def _explained(player: DemoPlayer) -> list[RenderableType]:
    return [Text(player.explanation.replace("`", ""), "italic")] if player.explanation else []


def _zones(world: World) -> RenderableType:
    nodes = sorted(world.cluster.all(kinds.NODES), key=lambda node: (not is_spot(node), _number(node)))
    grid = Table.grid(expand=True)
    zones = sorted({_zone(node) for node in nodes})
    tallest = max((sum(_zone(node) == zone for node in nodes) for zone in zones), default=0)
    for _ in zones:
        grid.add_column(ratio=1)
    grid.add_row(
        *(
            Panel(
                _rows(world, [node for node in nodes if _zone(node) == zone], tallest),
                title=f"zone {zone}",
                title_align="left",
                border_style="dim",
            )
            for zone in zones
        )
    )
    return grid


def _rows(world: World, nodes: list[Json], tallest: int) -> RenderableType:
    rows = [_row(world, node) for node in nodes]
    rows += [Text("")] * (tallest - len(rows))
    return Group(*rows)


def _row(world: World, node: Json) -> Text:
    colour = _SPOT if is_spot(node) else _ON_DEMAND
    pods = sorted(world.cluster.api.storage.pods_on(name_of(node)), key=lambda pod: (namespace_of(pod), name_of(pod)))
    state = "" if condition_true(node, "Ready") else " starting"
    if any(
        "termination" in taint["key"] or taint["key"] == DRAIN_TAINT for taint in at(node, "spec", "taints", default=[])
    ):
        state = " draining"
    # The state comes before the pods: a row that is too long for its column ends in an ellipsis.
    title = (f"{name_of(node):<14}", colour)
    row = Text.assemble(title, (state, "magenta"), " ", *(_cell(pod, colour) for pod in pods))
    row.no_wrap, row.overflow = True, "ellipsis"
    return row


def _zone(node: Json) -> str:
    return str(at(node, "metadata", "labels", default={}).get(_ZONE, "-"))


def _number(node: Json) -> tuple[str, int]:
    name, _, number = name_of(node).rpartition("-")
    return name, int(number) if number.isdecimal() else 0


def _cell(pod: Json, colour: str) -> tuple[str, str]:
    if terminating(pod):
        return _TERMINATING, f"dim {colour}"
    return (_READY if condition_true(pod, "Ready") else _STARTING), colour


def _below_nodes(world: World) -> list[RenderableType]:
    legend = Text.assemble(
        (f"{_READY} spot ", _SPOT),
        (f"{_READY} on-demand ", _ON_DEMAND),
        (f"{_STARTING} starting {_TERMINATING} terminating", "dim"),
    )
    waiting = [pod for pod in world.cluster.all(kinds.PODS) if not at(pod, "spec", "nodeName", default="")]
    if waiting:
        legend.append(f"   {len(waiting)} pods are pending", "magenta")
    web = workload(world)
    if (replicas := at(web, "spec", "replicas", default=None)) is not None:
        spot, on_demand = world.invariants.split(web)
        legend.append(f"   web {spot} + {on_demand} of {replicas}", "dim")
    speed = getattr(world.clock, "speed", 1.0)
    pace = f"×{speed:g}" if speed else "paused"
    lines = [_two_ends(legend, Text(f"{world.clock.now():%H:%M:%S} {pace}", "bold magenta" if not speed else "dim"))]
    held = allocations(world)
    if held:
        words = [
            f"{name}: {' '.join(drives)}, port {port}" if drives else f"{name}: waits"
            for name, (drives, port) in sorted(held.items())
        ]
        lines.append(Text("drives  " + "   ".join(words), no_wrap=True, overflow="ellipsis"))
    return lines


def _decisions(world: World, console: Console, width: int, rows: int) -> RenderableType:
    """The latest entries that fit; with their full reasons if there is room for several."""
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(no_wrap=True, min_width=8)
    table.add_column(no_wrap=True, ratio=1)
    shown: list[tuple[str, Text]] = []
    for one, text in reversed(describe_timeline(world.invariants.timeline[-_LOOK_BACK:])):
        line = Text.assemble(
            text, (f"  {describe_reason(one)}" if one.why else "", "dim"), overflow="ellipsis", no_wrap=True
        )
        # The frame, the time and the gap behind it take 14 columns.
        lines = [line] if rows < _ROOM_FOR_REASONS else list(line.wrap(console, max(20, width - 14), no_wrap=False))
        if len(shown) + len(lines) > rows:
            break
        shown = [(f"{one.at:%H:%M:%S}" if not number else "", part) for number, part in enumerate(lines)] + shown
    for time, part in shown:
        table.add_row(Text(time, "dim"), part)
    for _ in range(rows - len(shown)):
        table.add_row("", "")
    return Panel(table, title="what happens, and why", title_align="left", border_style="dim")


def _chapters(player: DemoPlayer) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(min_width=1)
    table.add_column(no_wrap=True, min_width=max((len(one.title) for one in player.results), default=0))
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for one in player.results:
        mark = Text("✓", "green") if one.reached else Text("✗", "red")
        table.add_row(mark, one.title, Text(one.result, "dim"))
    return table
