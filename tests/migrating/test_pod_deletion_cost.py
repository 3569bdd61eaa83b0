"""From pod-deletion-cost-controller and back: values near 2147483647 without a mark of ours, with a hole among them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from plimsoll.controllers.deletion_cost.values import COST, VALUE_RECORD
from tests.eventually import eventually
from tests.migrating.cluster import Place, metric, settled, switched_on

TOP = 2147483647
ASKED = {"pod-deletion-cost.lablabs.io/enabled": "true", "pod-deletion-cost.lablabs.io/type": "zone"}


@pytest.fixture
async def left_uneven(here: Place, kwok_nodes: Callable[[str], list[str]]) -> dict[str, int]:
    """Four pods in zone a, two in b with a hole above them; the values by pod UID."""
    (a,), _ = kwok_nodes("1 zone=a cpu=4"), kwok_nodes("1 zone=b cpu=2")
    await here.deploy("web", 6, ASKED, cpu="1")
    pods = await here.pods()
    values = {True: iter((TOP, TOP - 1, TOP - 2, TOP - 3)), False: iter((TOP - 1, TOP - 2))}
    for pod in pods:
        annotations = {COST: str(next(values[pod["spec"]["nodeName"] == a]))}
        await here.direct.patch(
            f"{here.pods_path}/{pod['metadata']['name']}", {"metadata": {"annotations": annotations}}
        )
    return await costs(here)


async def costs(here: Place) -> dict[str, int]:
    return {
        pod["metadata"]["uid"]: int(pod["metadata"]["annotations"][COST])
        for pod in await here.pods()
        if COST in pod["metadata"].get("annotations", {})
    }


async def test_values_stay_and_new_pods_get_theirs_around_them(
    here: Place, left_uneven: dict[str, int], kwok_nodes: Callable[[str], list[str]], tmp_path: Path
):
    async with switched_on(here, tmp_path, "deletion-cost", "controllers.reconcileInterval=1s") as operator:
        await settled(operator, "deletion-cost")
        assert await costs(here) == left_uneven
        kwok_nodes("1 zone=c")
        await here.scale("web", 7)
        await eventually(lambda: _all_valued(here, 7), "the new pod has a value")
        assert left_uneven.items() <= (await costs(here)).items()
    assert "1 leftovers" in await here.command("cleanup", "--apply")
    assert await costs(here) == left_uneven, "back, only ours is gone"


async def test_adopted_values_lose_their_hole_and_all_are_kept_by_who_goes_back(
    here: Place, left_uneven: dict[str, int], tmp_path: Path
):
    quick = ("controllers.reconcileInterval=1s", "controllers.deletionCost.adoptExisting=true")
    async with switched_on(here, tmp_path, "deletion-cost", *quick) as operator:

        async def mended() -> bool:
            return await metric(operator, "plimsoll_actions_total", 'result="done"') >= 1

        await eventually(mended, "the hole is closed")
        await settled(operator, "deletion-cost")
        now = await costs(here)
        changed = {uid for uid, cost in now.items() if cost != left_uneven[uid]}
        assert len(changed) == 1, "by one rewrite"
        assert sorted(now.values(), reverse=True)[:2] == [TOP, TOP]
    marked = [pod for pod in await here.pods() if VALUE_RECORD in pod["metadata"]["annotations"]]
    assert {pod["metadata"]["uid"] for pod in marked} == changed
    assert await costs(here) == now, "valid values for whoever reads the same annotation"


async def _all_valued(here: Place, count: int) -> bool:
    return len(await costs(here)) == count
