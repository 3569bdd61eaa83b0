"""Fault 5: evictions are refused, for now or for ever. The block is reported, nothing is forced, and others are left alone."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.eventually import eventually
from tests.faults import answers, invariants
from tests.faults.answers import Reply
from tests.faults.calls import Call
from tests.faults.faults import Answer
from tests.faults.invariants import evictions
from tests.faults.rules import on
from tests.faults.runs import Run, config
from tests.faults.scene import Scene

EVICT = on("create", "pods/eviction")


async def _nobody_has_left(scene: Scene, pods: list[str]) -> None:
    await scene.history.caught_up()
    assert [pod["metadata"]["uid"] for pod in await scene.pods("web")] == pods
    assert scene.record.of(on("delete deletecollection", "pods")) == [], "L6: never forced"
    invariants.destructive_acts_name_a_uid(scene.record)


async def test_a_budget_that_never_allows_any(scene: Scene) -> None:
    """The API server says no although no budget is in sight, as one made a moment ago would have it."""
    pods = await scene.deploy(leaving=2)
    refused = scene.rules.add(EVICT, Answer(answers.budget_exhausted))
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    blocked = {"controller": "example", "code": "NotEnoughPdb"}
    await eventually(lambda: run.metric("plimsoll_blocked", **blocked) == 1, "the block is reported")
    await run.rounds(3)

    await _nobody_has_left(scene, [pod["metadata"]["uid"] for pod in pods])
    assert {exchange.call.name for exchange in evictions(scene.record)} == {pods[0]["metadata"]["name"]}
    assert len(evictions(scene.record)) <= 5, "one attempt a look, and no more"

    scene.rules.drop(refused)
    await run.look()
    await scene.comes_to_rest(run)
    await run.stop()
    invariants.all_of(scene)


async def test_two_budgets_answered_by_the_server(scene: Scene) -> None:
    pods = await scene.deploy()
    scene.rules.add(EVICT, Answer(answers.two_budgets))
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    await scene.comes_to_rest(run)  # now nothing but the back-off can wake the key
    await scene.ask_to_leave(pods[0])
    await scene.record.until(lambda record: len(evictions(record)) >= 5)
    await run.stop()
    await _nobody_has_left(scene, [pod["metadata"]["uid"] for pod in pods])
    # Each pause is at least half of one that doubles from 0.2 s: a refusal that lasts is not met by a storm of requests.
    starts = [exchange.started for exchange in evictions(scene.record)]
    pauses = [later - earlier for earlier, later in pairwise(starts)]
    assert all(pause >= 0.1 * 2**nth for nth, pause in enumerate(pauses)), pauses


@pytest.mark.parametrize(
    ("budgets", "code"), [(["none"], "NotEnoughPdb"), (["one", "two"], "SeveralBudgets")], ids=["exhausted", "two"]
)
async def test_real_budgets_are_not_even_tried(scene: Scene, budgets: list[str], code: str) -> None:
    """What the view shows to be hopeless costs the API server, and the budget, nothing."""
    pods = await scene.deploy(leaving=2)
    for name in budgets:
        await scene.budget(name, max_unavailable=0 if name == "none" else 1)
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    await eventually(lambda: run.metric("plimsoll_blocked", code=code) == 1, "the block is reported")
    await run.rounds(2)
    assert evictions(scene.record) == []
    await _nobody_has_left(scene, [pod["metadata"]["uid"] for pod in pods])

    for name in budgets:
        await scene.direct.delete(scene.path("policy/v1/poddisruptionbudgets", name))
    await eventually(lambda: run.metric("plimsoll_blocked", code=code) == 0 or _look(run), "the block is gone")
    await scene.comes_to_rest(run)
    await run.stop()
    invariants.all_of(scene)


async def test_a_real_budget_paces_the_evictions(scene: Scene) -> None:
    """With a budget of two, two may be missing at once, and never three."""
    await scene.deploy(replicas=5, leaving=4)
    await scene.budget("two", max_unavailable=2)
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    await scene.comes_to_rest(run)
    await run.stop()
    invariants.destructive_acts_name_a_uid(scene.record)
    invariants.evicted_once(scene.record)
    invariants.pods_missing_at_most(scene, "web", replicas=5, missing=2)


async def test_throttled_evictions_come_through_in_the_end(scene: Scene) -> None:
    """A 429 without the cause DisruptionBudget is the server's own trouble, not a budget's no."""

    def throttled(call: Call) -> Reply:
        return answers.throttled(call, retry_after_seconds=1)

    await scene.deploy(leaving=1)
    shed = scene.rules.add(EVICT, Answer(throttled), times=2)
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    await scene.comes_to_rest(run)
    await run.stop()
    assert shed.struck == 2
    invariants.all_of(scene)


async def _look(run: Run) -> bool:
    await run.look()
    return False
