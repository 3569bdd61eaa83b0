"""`plimsoll demo --once`: the README's main command ends in proof."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from plimsoll.cli import demo
from plimsoll.cli.cluster_view import ClusterView
from plimsoll.embedded_cluster.clocks import VirtualClock, run_virtually
from plimsoll.simulate.demo.chapters import CHAPTERS, Chapter
from plimsoll.simulate.demo.player import DemoPlayer
from plimsoll.simulate.demo.scene import CONFIG
from plimsoll.simulate.invariants.liveness import LivenessInvariants
from plimsoll.simulate.world import World
from tests.cli.command import plimsoll


def played(*arguments: str) -> dict[str, Any]:
    result = plimsoll("demo", "--once", "-o", "json", *arguments)
    assert result.exit_code == 0, result.stdout + result.stderr
    whole: dict[str, Any] = json.loads(result.stdout)
    return whole


@pytest.mark.parametrize("seed", ["0", "1", "2"])
def test_every_chapter_comes_to_its_end_and_no_rule_is_broken(seed: str):
    whole = played("--seed", seed)
    assert [one["title"] for one in whole["chapters"] if not one["reached"]] == []
    assert whole["violations"] == []
    assert whole["mostEvictionsOfOnePod"] <= 1
    evictions = {one["title"]: one["evictions"] for one in whole["chapters"]}
    assert evictions["Fifteen replicas at once"] == 0
    assert evictions["The share falls from 60 % to 20 %"] == 6
    assert evictions["Scaled down to 5"] == 0
    assert evictions["A burst without nodes"] == 0
    assert evictions["The burst is over"] == 1  # the pod of the node that is drained


def test_the_summary_is_for_people():
    told = plimsoll("demo", "--once").stdout
    assert told.count("✓") == 9
    assert "no pod twice" in told
    assert "settled and stopped writing (L1, L2)" in told


def test_a_broken_rule_ends_in_a_failure(monkeypatch: pytest.MonkeyPatch):
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    monkeypatch.setattr(
        LivenessInvariants, "must_be_at_rest", lambda self, _: self.violated("L2", f"something moves at {moment}")
    )
    result = plimsoll("demo", "--once")
    assert result.exit_code == 1
    assert "invariant violated:" in result.stdout
    assert "L2: something moves" in result.stdout


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (200, 50), (60, 16)])
def test_the_picture_fits_the_terminal_and_keeps_the_keys_in_sight(width: int, height: int):
    screen = run_virtually(_screen(width, height))
    lines = screen.rstrip("\n").splitlines()
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert lines[-1].startswith("the keys")
    assert lines[0].startswith("2 of 9: ")


async def _screen(width: int, height: int) -> str:
    """What is seen in the second chapter."""
    async with World(CONFIG, VirtualClock(datetime(2026, 1, 1, 9, tzinfo=UTC))) as world:
        player = DemoPlayer(world, CHAPTERS, pause_seconds=25)
        await player.prepare()
        playing = asyncio.create_task(player.play())
        await world.pass_time(60)
        console = Console(width=width, height=height, file=io.StringIO(), record=True, color_system=None)
        console.print(ClusterView(world, player, [Text("the keys")]), height=height)
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
        return console.export_text()


async def test_a_failed_chapter_is_a_failure_when_watched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    class Quitting(DemoPlayer):
        async def play(self) -> None:
            await super().play()
            os.kill(os.getpid(), signal.SIGINT)

    async def nothing(_: World) -> None: ...

    chapter = Chapter("A chapter without an end", "", nothing, lambda _: False, lambda _: "nothing", 3600.0)
    monkeypatch.setattr(demo, "DemoPlayer", Quitting)
    monkeypatch.setattr(demo, "CHAPTERS", (chapter,))
    assert await demo._watched(1000.0, 0, tmp_path / "kubeconfig") == 1
    shown = capsys.readouterr().out
    assert "chapter failed: A chapter without an end: after 20" in shown, "it stands still for 200 s, not for an hour"
