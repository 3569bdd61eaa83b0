"""`plimsoll demo`: a guided tour on an embedded cluster. `--once` plays it in virtual time and checks every invariant."""

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

from plimsoll.cli.cluster_view import ClusterView
from plimsoll.dashboard.service import dashboard_of
from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.clocks import ScaledClock, VirtualClock, run_virtually
from plimsoll.embedded_cluster.http import HttpServer
from plimsoll.runtime.logging import set_up_logging
from plimsoll.simulate.changes import apply_change, parse_set
from plimsoll.simulate.demo.chapters import CHAPTERS
from plimsoll.simulate.demo.player import ChapterResult, DemoPlayer
from plimsoll.simulate.demo.scene import CONFIG, NAMESPACE, workload
from plimsoll.simulate.invariants.observed import is_spot
from plimsoll.simulate.invariants.rule import Violation
from plimsoll.simulate.report import Prices, ReportBuilder
from plimsoll.simulate.world import World

_FRAMES_PER_SECOND = 8
_READING_SECONDS = 25.0
_KEYS = (
    ("+ -", "scale web"), ("r", "reclaim node"), ("space", "pause"), ("f s", "faster/slower"), ("q", "quit"),
)  # fmt: skip
_FASTEST, _SLOWEST = 1000.0, 0.5
# After the last chapter nothing else changes for _REST_SECONDS; in the last _QUIET_SECONDS the operator must write nothing.
_REST_SECONDS, _QUIET_SECONDS = 900.0, 300.0


@click.command(
    epilog="""\b
Examples:
  plimsoll demo                        watch it, and join in with kubectl
  plimsoll demo --speed 2              slower
  plimsoll demo --once                 to the end in virtual time, every invariant checked at every step
  plimsoll demo --once --seed 7 -o json

\b
Exit codes:
  0: every chapter that was played came to its expected end, and no invariant was violated
  1: a chapter failed, or an invariant was violated
"""
)
@click.option("--once", is_flag=True, help="Play to the end in virtual time, print a summary, and exit.")
@click.option(
    "--speed",
    type=click.FloatRange(0.1, 1000),
    default=10.0,
    show_default=True,
    help="Simulated seconds per real second.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed for generated names and random choices.")
@click.option(
    "--kubeconfig", metavar="FILE", type=click.Path(path_type=Path), help="Where to write the kubeconfig for kubectl."
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def demo(*, once: bool, speed: float, seed: int, kubeconfig: Path | None, output: Literal["text", "json"]) -> None:
    """Watch the operator work on a cluster inside this process.

    Nine chapters: the operator places replicas, moves them within a PodDisruptionBudget, rescues them from a reclaimed node and keeps
    them balanced while they scale down; it adds and removes nodes, and allocates drives. Join in with the keys or kubectl.
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


# ── in virtual time ──────────────────────────────────────────────────────────────────────────────────────────────────


def _once(seed: int, output: str) -> int:
    results, violations, figures = run_virtually(_play_once(seed))
    if output == "json":
        whole = {"chapters": results, "violations": violations, **figures}
        click.echo(msgspec.json.format(msgspec.json.encode(whole), indent=2).decode())
    else:
        _print_summary(results, violations, figures, " At the end the operator settled and stopped writing (L1, L2).")
    return 0 if all(one.reached for one in results) and not violations else 1


async def _play_once(seed: int) -> tuple[list[ChapterResult], list[Violation], dict[str, float]]:
    clock = VirtualClock(datetime(2026, 1, 1, 9, tzinfo=UTC))
    async with World(CONFIG, clock, seed=seed) as world:
        player = DemoPlayer(world, CHAPTERS, pause_seconds=_READING_SECONDS)
        await player.prepare()
        builder = ReportBuilder(world.cluster, world.invariants, Prices())
        began = clock.monotonic()
        await player.play()
        await world.pass_time(_REST_SECONDS)
        world.invariants.liveness.must_be_at_rest(_QUIET_SECONDS)
        world.require_no_errors()
        report = builder.report(clock.monotonic() - began, clock.now(), clock.now())
        return player.results, world.invariants.violations, {
            "minutes": round((clock.monotonic() - began) / 60, 1),
            "evictions": report.evictions,
            "mostEvictionsOfOnePod": report.most_evictions_of_one_pod,
            "cost": report.cost,
            "spotShare": report.spot_share,
        }  # fmt: skip


def _print_summary(
    results: list[ChapterResult], violations: list[Violation], figures: dict[str, float], rest: str = ""
) -> None:
    table = Table(title="What happened")
    for column in ("", "chapter", "result", "after", "evictions"):
        table.add_column(column, justify="right" if column in ("after", "evictions") else "left")
    for one in results:
        table.add_row("✓" if one.reached else "✗", one.title, one.result, f"{one.seconds:.0f} s", str(one.evictions))
    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(table)
    most = figures["mostEvictionsOfOnePod"]
    again = "no pod twice" if most <= 1 else f"one pod {most:g} times"
    console.print(f"{figures['minutes']:g} simulated minutes, {figures['evictions']:g} evictions, {again}.")
    for one in results:
        if not one.reached:
            console.print(f"chapter failed: {one.title}: after {one.seconds:.0f} s: {one.result}", style="red")
    for violation in violations:
        console.print(f"invariant violated: {violation}", style="red")
    if not violations:
        console.print(
            "The invariant checker, which shares no rule with the operator, found no violation: no drive or port allocated twice "
            "(S1–S3), evictions by UID and within budgets and limits (S4, S5, S8), only empty nodes removed (S6), node groups within "
            "their sizes and no machine ordered twice (S7, S10), no destructive act on stale or missing data (S9, S11, S12), the "
            "on-demand minimum kept (S13), no pod moved in circles (L3)." + rest
        )


# ── watched ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _watched(speed: float, seed: int, kubeconfig: Path) -> int:
    clock = ScaledClock(speed)
    async with (
        World(CONFIG, clock, seed=seed, pod_events=True) as world,
        HttpServer(world.cluster.api, port=0) as server,
    ):
        server.write_kubeconfig(kubeconfig)
        player = DemoPlayer(world, CHAPTERS, pause_seconds=_READING_SECONDS)
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        footer = _footer(kubeconfig)
        view = ClusterView(world, player, footer)
        keyboard = _Keyboard(world, clock, speed, stop)
        with Live(view, console=Console(), auto_refresh=False, screen=True) as live, _pressed(keyboard.press):
            playing = asyncio.create_task(_play(player, world, footer), name="demo")
            while not stop.is_set() and not playing.done():
                live.update(view, refresh=True)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), 1 / _FRAMES_PER_SECOND)
            playing.cancel()
            (error, *_) = await asyncio.gather(playing, *keyboard.started, return_exceptions=True)
        clock.speed = _FASTEST  # shut down without waiting at the demo's speed
        _print_summary(player.results, world.invariants.violations, _figures(world, clock))
        if isinstance(error, Exception):
            raise click.ClickException(f"the demo failed in chapter {player.heading}: {error}") from error
        if player.current is not None:
            click.echo(f"You quit in chapter {player.heading}. `plimsoll demo --once` plays all chapters.")
        return 1 if player.failed or world.invariants.violations else 0


async def _play(player: DemoPlayer, world: World, footer: list[Text]) -> None:
    await player.prepare()
    process = world.operator_process
    here = replace(world.config, dashboard=replace(world.config.dashboard, port=0))
    async with dashboard_of(process.operator, here, process.client, world.clock, "demo") as server:
        if server is not None:
            footer.append(_address(f"dashboard: {server.url}"))
        await player.play()
        await asyncio.Event().wait()  # the operator keeps working until the user quits


def _figures(world: World, clock: ScaledClock) -> dict[str, float]:
    return {
        "minutes": round(clock.monotonic() / 60, 1),
        "evictions": world.invariants.evictions,
        "mostEvictionsOfOnePod": world.invariants.most_evictions_of_one_pod(),
    }


def _footer(kubeconfig: Path) -> list[Text]:
    keys = Text(no_wrap=True, overflow="ellipsis")
    for key, does in _KEYS:
        keys.append(f" {key} ", "reverse").append(f" {does}  ")
    return [keys, _address(f"export KUBECONFIG={kubeconfig}")]


def _address(text: str) -> Text:
    return Text(text, "dim", no_wrap=True, overflow="ellipsis")


class _Keyboard:
    """The actions of the keys."""

    def __init__(self, world: World, clock: ScaledClock, speed: float, stop: asyncio.Event) -> None:
        self._world = world
        self._clock = clock
        self._speed = speed  # to resume after a pause
        self._stop = stop
        self.started: list[asyncio.Task[None]] = []  # changes that keys started

    def press(self, key: str) -> None:
        replicas = workload(self._world).get("spec", {}).get("replicas")
        match key:
            case "q" | "\x03" | "\x04":
                self._stop.set()
            case "+" | "=" | "-" if replicas is not None:
                size = max(0, replicas + (-3 if key == "-" else 3))
                change = parse_set(f"deployment/{NAMESPACE}/web:replicas={size}@0s")
                self.started.append(asyncio.create_task(apply_change(change, self._world.cluster)))
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
