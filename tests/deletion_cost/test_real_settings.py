"""On the real control plane: what users switch, write wrongly or forget."""

from __future__ import annotations

from plimsoll.controllers.deletion_cost.values import COST, VALUE_RECORD
from tests.deletion_cost.live import Live, annotations_of
from tests.deletion_cost.scene import TOP
from tests.eventually import eventually
from tests.faults.upstream import Json


async def events(live: Live, reason: str) -> list[Json]:
    found = (await live.direct.get(f"/apis/events.k8s.io/v1/namespaces/{live.namespace}/events"))["items"]
    return [event for event in found if event["reason"] == reason]


async def test_switched_off_and_on_again(live: Live) -> None:
    life = await live.start()
    await live.deploy(3)
    await live.comes_to_rest(life)
    theirs = (await live.pods())[0]["metadata"]["name"]
    await live.direct.patch(live.pod_path(theirs), {"metadata": {"annotations": {COST: "7"}}})
    await live.annotate(enabled="false")

    async def clean() -> bool:
        return not any(VALUE_RECORD in annotations_of(pod) for pod in await live.pods())

    await eventually(clean, "what is ours is gone")
    assert await live.costs() == {theirs: 7}
    await live.annotate(enabled="true")

    async def covered() -> bool:
        return len(await live.costs()) == 3

    await eventually(covered, "the others have values again")
    assert (await live.costs())[theirs] == 7


async def test_another_label(live: Live) -> None:
    """By host name there are six zones of one or no pod each."""
    life = await live.start()
    await live.deploy(6)
    await live.comes_to_rest(life)
    assert sorted((await live.costs()).values()) == [TOP - 1] * 3 + [TOP] * 3
    await live.annotate(spread_by="kubernetes.io/os")  # the same on all

    async def recomputed() -> bool:
        return sorted((await live.costs()).values()) == [TOP - n for n in range(5, -1, -1)]

    await eventually(recomputed, "one zone counts down from the top")
    assert await eventually(lambda: events(live, "DeletionCostRecomputed"))


async def test_a_type_that_there_is_not(live: Live) -> None:
    life = await live.start()
    await live.deploy(2, type="zoen")
    (event,) = await eventually(lambda: events(live, "InvalidAnnotations"), "an event tells")
    assert event["type"] == "Warning"
    assert event["regarding"]["kind"] == "Deployment"
    assert '"zoen"' in event["note"]
    listed = event["note"].partition("Available types: ")[2].partition(".")[0]
    assert "zone" in listed.split(", ")
    for _ in range(3):
        await life.rounds(1)
    assert live.record.works() == []
    assert life.metric("plimsoll_problems_total", code="InvalidAnnotations") == 1, "told once, however often one looks"
    await live.annotate(type=None)
    await live.comes_to_rest(life)


async def test_a_node_without_the_label(live: Live) -> None:
    life = await live.start()
    await live.deploy(3, spread_by="plimsoll.test/rack")
    nodes = {pod["spec"]["nodeName"] for pod in await live.pods()}

    async def told() -> bool:
        notes = [event["note"] for event in await events(live, "NodeUnlabelled")]
        return all(any(f"node {node} has no label plimsoll.test/rack" in note for note in notes) for node in nodes)

    await eventually(told, "an event names each node, and the label")
    await life.rounds(1)
    assert live.record.works() == []


async def test_what_is_measured(live: Live) -> None:
    life = await live.start()
    await live.deploy(4)
    await live.comes_to_rest(life)
    labels = {"namespace": live.namespace, "workload": "web"}
    assert life.metric("plimsoll_deletion_cost_covered_pods", **labels) == 4
    assert life.metric("plimsoll_deletion_cost_imbalance", **labels) == 0
    assert life.metric("plimsoll_actions_total", controller="deletion-cost", action="Patch", result="done") == 4
