"""A cluster as people can take it in: nodes as rows by zone, pods as coloured cells, what was decided last."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from plimsoll.sim.api import kinds
from plimsoll.sim.api.documents import Json, at, holds, name_of, namespace_of, terminating
from plimsoll.simulation.telling import Telling
from plimsoll.simulation.witness import Happening
from plimsoll.simulation.witness.sight import is_spot
from plimsoll.simulation.world import World

_LAST_DECISIONS = 8
# A letter beside the colour, for those who do not tell colours apart.
_READY, _STARTING, _LEAVING = "■", "□", "x"
_SPOT, _ON_DEMAND = "dark_orange", "deep_sky_blue1"


def picture(world: World, telling: Telling, keys: str = "") -> RenderableType:
    parts: list[RenderableType] = [_headline(world, telling), _nodes(world)]
    if waiting := _waiting(world):
        parts.append(waiting)
    parts.append(_decisions(world.witness.happenings[-_LAST_DECISIONS:]))
    parts.append(_chapters(telling))
    if keys:
        parts.append(Text(keys, style="dim"))
    return Group(*parts)


def _headline(world: World, telling: Telling) -> RenderableType:
    title = telling.current.title if telling.current is not None else "The end"
    violations = world.witness.violations
    verdict = Text(f"{len(violations)} rules broken", "bold red") if violations else Text("no rule broken", "green")
    line = Text.assemble(
        (f"{world.clock.now():%H:%M:%S}  ", "dim"), (title, "bold"), "   ", f"{world.witness.evictions} evictions, "
    )
    return Text.assemble(line, verdict)


def _nodes(world: World) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("zone", "node", "class", "pods"):
        table.add_column(column)
    nodes = sorted(world.cluster.all(kinds.NODES), key=lambda node: (_zone(node), not is_spot(node), name_of(node)))
    last = ""
    for node in nodes:
        spot = is_spot(node)
        colour = _SPOT if spot else _ON_DEMAND
        note = " going" if at(node, "spec", "taints", default=[]) else ""
        cells = Text(" ").join(_cell(pod, colour) for pod in _pods_on(world, node))
        zone = _zone(node)
        table.add_row(
            zone if zone != last else "", name_of(node), Text(("spot" if spot else "on-demand") + note, colour), cells
        )
        last = zone
    return Panel(table, title="cluster", title_align="left", border_style="dim")


def _zone(node: Json) -> str:
    return str(at(node, "metadata", "labels", default={}).get("topology.kubernetes.io/zone", "-"))


def _pods_on(world: World, node: Json) -> list[Json]:
    return sorted(world.cluster.api.storage.pods_on(name_of(node)), key=lambda pod: (namespace_of(pod), name_of(pod)))


def _cell(pod: Json, colour: str) -> Text:
    if terminating(pod):
        return Text(_LEAVING, f"dim {colour}")
    return Text(_READY if holds(pod, "Ready") else _STARTING, colour)


def _waiting(world: World) -> RenderableType | None:
    waiting = [pod for pod in world.cluster.all(kinds.PODS) if not at(pod, "spec", "nodeName", default="")]
    return Text(f"{len(waiting)} pods wait for a node", "yellow") if waiting else None


def _decisions(happenings: Sequence[Happening]) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for one in happenings:
        table.add_row(
            Text(f"{one.at:%H:%M:%S}", "dim"), Text(one.what), Text(one.why, "dim", overflow="ellipsis", no_wrap=True)
        )
    return Panel(table, title="decisions", title_align="left", border_style="dim")


def _chapters(telling: Telling) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for told in telling.told:
        mark = Text("✓", "green") if told.reached else Text("✗", "red")
        table.add_row(mark, told.title, Text(told.result, "dim"))
    return table
