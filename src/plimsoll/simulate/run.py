"""Runs a scenario in virtual time and returns its report. Called by `cli.simulate` and tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from plimsoll.config import Config
from plimsoll.embedded_cluster.clocks import EPOCH, VirtualClock, run_virtually
from plimsoll.simulate.changes import ScenarioChange, apply_change
from plimsoll.simulate.population import check_offerings, create_object, populate_cluster
from plimsoll.simulate.report import Prices, Report, ReportBuilder
from plimsoll.simulate.world import World
from plimsoll.snapshot.view import SnapshotView

# Interval of the curve points. The sums do not depend on it: they are integrated from change to change.
SAMPLE_SECONDS = 15.0
# Runs before the scenario starts: nodes become ready, pods start, and the operator reconciles everything once.
_WARM_UP_SECONDS = 60.0


class Scenario(Struct, frozen=True):
    """The input of a simulation."""

    seconds: float
    changes: Sequence[ScenarioChange] = ()
    snapshot_view: SnapshotView | None = None  # the cluster at the start
    node_lines: Sequence[str] = ()  # nodes to add to those of the snapshot
    documents: Sequence[dict[str, Any]] = ()  # objects to create at the start
    seed: int = 0
    prices: Prices = Prices()


def run_simulation(
    config: Config, scenario: Scenario, *, seen: Callable[[World, float], None] = lambda *_: None
) -> Report:
    """Run the real operator through a scenario. `seen` is called after every sample."""
    return run_virtually(_simulate(config, scenario, seen))


def _prices(given: Prices, config: Config) -> Prices:
    """The given prices, completed by the offerings of the configuration."""
    sold = {offering.id: offering.price for offering in config.providers.kwok.offerings if offering.price}
    return replace(given, machines={**sold, **given.machines})


async def _simulate(config: Config, scenario: Scenario, seen: Callable[[World, float], None]) -> Report:
    start = scenario.snapshot_view.at if scenario.snapshot_view is not None else EPOCH
    clock = VirtualClock(start)
    async with World(config, clock, seed=scenario.seed) as world:
        await populate_cluster(world, scenario.snapshot_view, scenario.node_lines)
        await world.start_operator()
        await world.pass_time(_WARM_UP_SECONDS)
        began = clock.now()
        last_change = began
        report = ReportBuilder(world.cluster, world.invariants, _prices(scenario.prices, config))
        for document in scenario.documents:
            if document.get("kind") == "NodeGroup":
                check_offerings(document, config.providers.kwok.offerings)
            await create_object(world.cluster, document)
        due = sorted(scenario.changes, key=lambda change: change.at)
        elapsed = 0.0
        report.sample(elapsed)
        while elapsed < scenario.seconds:
            upcoming = due[0].at if due else scenario.seconds
            step = min(SAMPLE_SECONDS, scenario.seconds - elapsed, max(0.0, upcoming - elapsed))
            await world.pass_time(step)
            elapsed += step
            while due and due[0].at <= elapsed:
                change = due.pop(0)
                world.invariants.scenario_changed(change.text)
                await apply_change(change, world.cluster)
                last_change = clock.now()
            world.require_no_errors()
            report.sample(elapsed)
            seen(world, elapsed)
        return report.report(elapsed, last_change, clock.now())
