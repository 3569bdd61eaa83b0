"""`plimsoll demo`: the operator on an embedded cluster, in a story that people can follow. `--once` ends in proof."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import click
import msgspec
from msgspec.structs import replace
from rich.console import Console
from rich.live import Live
from rich.table import Table

from plimsoll.cli.picture import picture
from plimsoll.dashboard.serving import dashboard_of
from plimsoll.logs import set_up_logging
from plimsoll.sim.api import kinds
from plimsoll.sim.clocks import ScaledClock, VirtualClock, run_virtually
from plimsoll.sim.http import HttpServer
from plimsoll.simulation.changes import carry_out, read_set
from plimsoll.simulation.report import Ledger, Prices
from plimsoll.simulation.story import CONFIG, NAMESPACE, STORY, workload
from plimsoll.simulation.telling import Telling, Told
from plimsoll.simulation.witness import Violation, is_spot
from plimsoll.simulation.world import World

_FRAMES_A_SECOND = 8
_READING_SECONDS = 25.0
_KEYS = "keys: + and - scale web, r reclaims a spot node, space pauses, f and s change the speed, q ends"


@click.command(
    epilog="""\b
Examples:
  plimsoll demo                        watch it; join in with kubectl
  plimsoll demo --speed 2              more slowly
  plimsoll demo --once                 to the end in virtual time, every rule checked at every step
  plimsoll demo --once --seed 7 -o json

\b
Exit codes: 0 the story came to its end and no rule was broken, 1 it did not.
"""
)
@click.option("--once", is_flag=True, help="Play to the end in virtual time, print a summary, and exit.")
@click.option(
    "--speed", type=click.FloatRange(0.1, 1000), default=10.0, show_default=True, help="Seconds that pass in one."
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Decides names and what the cluster leaves to chance."
)
@click.option(
    "--kubeconfig", metavar="FILE", type=click.Path(path_type=Path), help="Where to write one, to join in with kubectl."
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def demo(*, once: bool, speed: float, seed: int, kubeconfig: Path | None, output: Literal["text", "json"]) -> None:
    """Show placement, migration under a budget, a reclaimed node, a balanced scale-down and allocation, without a cluster."""
    set_up_logging("critical", "console")
    if once or not sys.stdout.isatty():
        sys.exit(_once(seed, output))
    path = (kubeconfig or Path("plimsoll-demo.kubeconfig")).resolve()
    try:
        code = asyncio.run(_watched(speed, seed, path))
    finally:
        path.unlink(missing_ok=True)
    sys.exit(code)


# ── to the end ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _once(seed: int, output: str) -> int:
    told, violations, figures = run_virtually(_played(seed))
    if output == "json":
        whole = {"chapters": told, "violations": violations, **figures}
        click.echo(msgspec.json.format(msgspec.json.encode(whole), indent=2).decode())
    else:
        _tell(told, violations, figures)
    return 0 if all(one.reached for one in told) and not violations else 1


async def _played(seed: int) -> tuple[list[Told], list[Violation], dict[str, float]]:
    clock = VirtualClock(datetime(2026, 1, 1, 9, tzinfo=UTC))
    async with World(CONFIG, clock, seed=seed) as world:
        telling = Telling(world, STORY, pause_seconds=_READING_SECONDS)
        await telling.prepare()
        ledger = Ledger(world.cluster, world.witness, Prices())
        began = clock.monotonic()
        looking = asyncio.create_task(_look(ledger, world, began), name="figures")
        await telling.play()
        looking.cancel()
        report = ledger.report(clock.monotonic() - began, clock.now(), clock.now())
        return telling.told, world.witness.violations, {
            "minutes": round((clock.monotonic() - began) / 60, 1),
            "evictions": report.evictions,
            "mostEvictionsOfOnePod": report.most_evictions_of_one_pod,
            "cost": report.cost,
            "spotShare": report.spot_share,
        }  # fmt: skip


async def _look(ledger: Ledger, world: World, began: float) -> None:
    while True:
        ledger.look(world.clock.monotonic() - began)
        await world.clock.sleep(5)


def _tell(told: list[Told], violations: list[Violation], figures: dict[str, float]) -> None:
    table = Table(title="What happened")
    for column in ("", "chapter", "what came of it", "after", "evictions"):
        table.add_column(column, justify="right" if column in ("after", "evictions") else "left")
    for one in told:
        table.add_row("✓" if one.reached else "✗", one.title, one.result, f"{one.seconds:.0f} s", str(one.evictions))
    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(table)
    console.print(
        f"{figures['minutes']:g} minutes of cluster life, {figures['evictions']:g} evictions, none of a pod twice"
        if figures["mostEvictionsOfOnePod"] <= 1
        else f"a pod was evicted {figures['mostEvictionsOfOnePod']:g} times"
    )
    for violation in violations:
        console.print(f"rule broken: {violation}", style="red")
    if not violations:
        console.print(
            "Checked at every step: evictions by UID and within budgets (S4, S8), limits (S5), the minimum on-demand (S13)."
        )


# ── to watch ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _watched(speed: float, seed: int, kubeconfig: Path) -> int:
    clock = ScaledClock(speed)
    async with World(CONFIG, clock, seed=seed) as world, HttpServer(world.cluster.api, port=0) as server:
        server.write_kubeconfig(kubeconfig)
        telling = Telling(world, STORY, pause_seconds=_READING_SECONDS)
        stop = asyncio.Event()
        window: list[str] = []
        started: list[asyncio.Task[None]] = []  # what keys have set going
        with (
            Live(console=Console(), refresh_per_second=_FRAMES_A_SECOND, screen=True) as live,
            _pressed(lambda key: started.extend(_act(key, world, clock, stop))),
        ):
            playing = asyncio.create_task(_play(telling, world, window), name="story")
            while not stop.is_set() and not (playing.done() and playing.exception()):
                live.update(picture(world, telling, "\n".join((_KEYS, f"export KUBECONFIG={kubeconfig}", *window))))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), 1 / _FRAMES_A_SECOND)
            playing.cancel()
            await asyncio.gather(playing, *started, return_exceptions=True)
        clock.speed = 1000.0  # what still has to stop need not be waited for
        _tell(telling.told, world.witness.violations, _figures(world, clock))
        return 1 if world.witness.violations else 0


async def _play(telling: Telling, world: World, window: list[str]) -> None:
    await telling.prepare()
    here = replace(world.config, dashboard=replace(world.config.dashboard, port=0))
    async with dashboard_of(world.operator, here, world.client, world.clock, "demo") as server:
        if server is not None:
            window.append(f"dashboard: {server.url}")
        await telling.play()
        await asyncio.Event().wait()  # there is more to see, until someone ends it


def _figures(world: World, clock: ScaledClock) -> dict[str, float]:
    return {
        "minutes": round(clock.monotonic() / 60, 1),
        "evictions": world.witness.evictions,
        "mostEvictionsOfOnePod": world.witness.often_evicted(),
    }


def _act(key: str, world: World, clock: ScaledClock, stop: asyncio.Event) -> Iterator[asyncio.Task[None]]:
    replicas = workload(world).get("spec", {}).get("replicas")
    match key:
        case "q" | "\x03":
            stop.set()
        case "+" | "-" if replicas is not None:
            size = max(0, replicas + (3 if key == "+" else -3))
            change = read_set(f"deployment/{NAMESPACE}/web:replicas={size}@0s")
            yield asyncio.create_task(carry_out(change, world.cluster))
        case "r":
            going = [
                node for node in world.cluster.all(kinds.NODES) if is_spot(node) and not node["spec"].get("taints")
            ]
            if going:
                world.cluster.reclaim(going[0]["metadata"]["name"])
        case " ":
            clock.speed = 0.0 if clock.speed else 10.0
        case "f" | "s":
            clock.speed = min(1000.0, max(0.5, (clock.speed or 10.0) * (2 if key == "f" else 0.5)))


@contextlib.contextmanager
def _pressed(act: Callable[[str], None]) -> Iterator[None]:
    """Call `act` for each key, without waiting for Enter."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin, lambda: act(sys.stdin.read(1)))
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        loop.remove_reader(sys.stdin)
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
