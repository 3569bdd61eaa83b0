"""From a cluster and a list of changes to a report, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from plimsoll.config import Config
from plimsoll.embedded_cluster.clocks import EPOCH, VirtualClock, run_virtually
from plimsoll.simulate.changes import Change, carry_out
from plimsoll.simulate.population import check_offerings, create, populate
from plimsoll.simulate.report import Ledger, Prices, Report
from plimsoll.simulate.world import World
from plimsoll.snapshot.view import Still

# How often a point of the curves is noted. The sums do not depend on it: they are kept from change to change.
LOOK_SECONDS = 15.0
# Before the clock of the simulation starts: nodes are ready, pods run, the operator has looked at everything.
_WARM_UP_SECONDS = 60.0


class Scenario(Struct, frozen=True):
    """What is simulated."""

    seconds: float
    changes: Sequence[Change] = ()
    still: Still | None = None  # what is there at the start
    node_lines: Sequence[str] = ()  # nodes beside those of the still
    documents: Sequence[dict[str, Any]] = ()  # objects that someone creates at the start
    seed: int = 0
    prices: Prices = Prices()


def simulate(config: Config, scenario: Scenario, *, seen: Callable[[World, float], None] = lambda *_: None) -> Report:
    """Runs the real operator; `seen` is called at every look."""
    return run_virtually(_simulate(config, scenario, seen))


def _prices(given: Prices, config: Config) -> Prices:
    """What machines of node groups cost, by the offerings of the configuration unless someone says otherwise."""
    sold = {offering.id: offering.price for offering in config.providers.kwok.offerings if offering.price}
    return replace(given, machines={**sold, **given.machines})


async def _simulate(config: Config, scenario: Scenario, seen: Callable[[World, float], None]) -> Report:
    start = scenario.still.at if scenario.still is not None else EPOCH
    clock = VirtualClock(start)
    async with World(config, clock, seed=scenario.seed) as world:
        await populate(world, scenario.still, scenario.node_lines)
        await world.start_operator()
        await world.pass_time(_WARM_UP_SECONDS)
        began = clock.now()
        last_change = began
        ledger = Ledger(world.cluster, world.witness, _prices(scenario.prices, config))
        for document in scenario.documents:
            if document.get("kind") == "NodeGroup":
                check_offerings(document, config.providers.kwok.offerings)
            await create(world.cluster, document)
        due = sorted(scenario.changes, key=lambda change: change.at)
        elapsed = 0.0
        ledger.look(elapsed)
        while elapsed < scenario.seconds:
            upcoming = due[0].at if due else scenario.seconds
            step = min(LOOK_SECONDS, scenario.seconds - elapsed, max(0.0, upcoming - elapsed))
            await world.pass_time(step)
            elapsed += step
            while due and due[0].at <= elapsed:
                await carry_out(due.pop(0), world.cluster)
                last_change = clock.now()
            ledger.look(elapsed)
            seen(world, elapsed)
        return ledger.report(elapsed, last_change, clock.now())
