"""`plimsoll demo`: the operator on an embedded cluster, in a story that people can follow. `--once` ends in proof."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
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
from rich.text import Text

from plimsoll.cli.cluster_view import Picture
from plimsoll.dashboard.service import dashboard_of
from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.clocks import ScaledClock, VirtualClock, run_virtually
from plimsoll.embedded_cluster.http import HttpServer
from plimsoll.runtime.logging import set_up_logging
from plimsoll.simulate.changes import carry_out, read_set
from plimsoll.simulate.demo.chapters import STORY
from plimsoll.simulate.demo.player import Telling, Told
from plimsoll.simulate.demo.scene import CONFIG, NAMESPACE, workload
from plimsoll.simulate.invariants.observed import is_spot
from plimsoll.simulate.invariants.rule import Violation
from plimsoll.simulate.report import Ledger, Prices
from plimsoll.simulate.world import World

_FRAMES_A_SECOND = 8
_READING_SECONDS = 25.0
_KEYS = (
    ("+ -", "scale web"), ("r", "reclaim node"), ("space", "pause"), ("f s", "faster/slower"), ("q", "quit"),
)  # fmt: skip
_FASTEST, _SLOWEST = 1000.0, 0.5
# After the last chapter, so long nothing happens; for the second part of it the operator must write nothing.
_REST_SECONDS, _QUIET_SECONDS = 900.0, 300.0


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
    """Watch the operator at work in a cluster inside this process.

    A story of nine chapters: replicas are placed, moved under a budget, saved from a node that goes, and scaled down evenly; nodes are
    bought and given back; drives are handed out. Keys and kubectl let you join in.
    """
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
        _tell(told, violations, figures, " At the end it came to rest and wrote nothing more (L1, L2).")
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
        await world.pass_time(_REST_SECONDS)
        world.witness.liveness.must_be_at_rest(_QUIET_SECONDS)
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


def _tell(told: list[Told], violations: list[Violation], figures: dict[str, float], rest: str = "") -> None:
    table = Table(title="What happened")
    for column in ("", "chapter", "what came of it", "after", "evictions"):
        table.add_column(column, justify="right" if column in ("after", "evictions") else "left")
    for one in told:
        table.add_row("✓" if one.reached else "✗", one.title, one.result, f"{one.seconds:.0f} s", str(one.evictions))
    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(table)
    most = figures["mostEvictionsOfOnePod"]
    again = "none of a pod twice" if most <= 1 else f"of one pod {most:g} times"
    console.print(f"{figures['minutes']:g} minutes of cluster life, {figures['evictions']:g} evictions, {again}.")
    for violation in violations:
        console.print(f"rule broken: {violation}", style="red")
    if not violations:
        console.print(
            "Watched at every step by a witness that shares no code with the operator: no drive or port twice (S1–S3), evictions by "
            "UID, within budgets and limits (S4, S5, S8), nodes removed only when empty (S6), groups within their sizes and no machine "
            "bought twice (S7, S10), no act on stale or missing knowledge (S9, S11, S12), the minimum on-demand kept (S13), nobody "
            "moved in circles (L3)." + rest
        )


# ── to watch ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _watched(speed: float, seed: int, kubeconfig: Path) -> int:
    clock = ScaledClock(speed)
    async with World(CONFIG, clock, seed=seed) as world, HttpServer(world.cluster.api, port=0) as server:
        server.write_kubeconfig(kubeconfig)
        telling = Telling(world, STORY, pause_seconds=_READING_SECONDS)
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        footer = _footer(kubeconfig)
        shown = Picture(world, telling, footer)
        player = _Player(world, clock, speed, stop)
        with Live(shown, console=Console(), auto_refresh=False, screen=True) as live, _pressed(player.press):
            playing = asyncio.create_task(_play(telling, world, footer), name="story")
            while not stop.is_set() and not (playing.done() and playing.exception()):
                live.update(shown, refresh=True)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), 1 / _FRAMES_A_SECOND)
            playing.cancel()
            await asyncio.gather(playing, *player.started, return_exceptions=True)
        clock.speed = _FASTEST  # what still has to stop need not be waited for
        _tell(telling.told, world.witness.violations, _figures(world, clock))
        if telling.current is not None:
            click.echo(f"It was left in chapter {telling.heading}. `plimsoll demo --once` plays it to its end.")
        return 1 if world.witness.violations else 0


async def _play(telling: Telling, world: World, footer: list[Text]) -> None:
    await telling.prepare()
    process = world.operator_process
    here = replace(world.config, dashboard=replace(world.config.dashboard, port=0))
    async with dashboard_of(process.operator, here, process.client, world.clock, "demo") as server:
        if server is not None:
            footer.append(_address(f"dashboard: {server.url}"))
        await telling.play()
        await asyncio.Event().wait()  # there is more to see, until someone ends it


def _figures(world: World, clock: ScaledClock) -> dict[str, float]:
    return {
        "minutes": round(clock.monotonic() / 60, 1),
        "evictions": world.witness.evictions,
        "mostEvictionsOfOnePod": world.witness.often_evicted(),
    }


def _footer(kubeconfig: Path) -> list[Text]:
    keys = Text(no_wrap=True, overflow="ellipsis")
    for key, does in _KEYS:
        keys.append(f" {key} ", "reverse").append(f" {does}  ")
    return [keys, _address(f"export KUBECONFIG={kubeconfig}")]


def _address(text: str) -> Text:
    return Text(text, "dim", no_wrap=True, overflow="ellipsis")


class _Player:
    """Who sits before the screen, and what their keys do."""

    def __init__(self, world: World, clock: ScaledClock, speed: float, stop: asyncio.Event) -> None:
        self._world = world
        self._clock = clock
        self._speed = speed  # to go back to after a pause
        self._stop = stop
        self.started: list[asyncio.Task[None]] = []  # what keys have set going

    def press(self, key: str) -> None:
        replicas = workload(self._world).get("spec", {}).get("replicas")
        match key:
            case "q" | "\x03" | "\x04":
                self._stop.set()
            case "+" | "=" | "-" if replicas is not None:
                size = max(0, replicas + (-3 if key == "-" else 3))
                change = read_set(f"deployment/{NAMESPACE}/web:replicas={size}@0s")
                self.started.append(asyncio.create_task(carry_out(change, self._world.cluster)))
            case "r":
                self._reclaim()
            case " ":
                self._clock.speed = 0.0 if self._clock.speed else self._speed
            case "f" | "s":
                self._speed = min(_FASTEST, max(_SLOWEST, self._speed * (2 if key == "f" else 0.5)))
                self._clock.speed = self._speed

    def _reclaim(self) -> None:
        nodes = self._world.cluster.all(kinds.NODES)
        spot = [node for node in nodes if is_spot(node) and not node["spec"].get("taints")]
        if spot:
            self._world.cluster.reclaim(spot[0]["metadata"]["name"])


@contextlib.contextmanager
def _pressed(act: Callable[[str], None]) -> Iterator[None]:
    """Call `act` for each key, without waiting for Enter."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    loop = asyncio.get_running_loop()

    def read() -> None:
        for key in os.read(sys.stdin.fileno(), 64).decode(errors="ignore"):
            act(key)

    loop.add_reader(sys.stdin, read)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        loop.remove_reader(sys.stdin)
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
