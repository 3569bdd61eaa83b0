"""The witness notices what must not happen: a judge who never objects proves nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from plimsoll.config import Config, DisruptionLimits, Operator
from plimsoll.sim.api import kinds
from plimsoll.sim.clocks import VirtualClock, run_virtually
from plimsoll.simulation.populating import create
from plimsoll.simulation.world import World

NODES = ("2 zone=a class=spot", "2 zone=b class=on-demand")
ANNOTATIONS = {"spotalis.io/enabled": "true", "spotalis.io/spot-percentage": "50%", "spotalis.io/min-on-demand": "2"}


def deployment(replicas: int) -> dict[str, Any]:
    labels = {"app": "web"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "annotations": ANNOTATIONS},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "x"}]}},
        },
    }


def broken(
    misdeed: Callable[[World, list[dict[str, Any]]], list[tuple[str, str, dict[str, Any]]]], config: Config
) -> set[str]:
    """Which rules a series of calls breaks, with no operator that could mend anything."""

    async def go() -> set[str]:
        async with World(config, VirtualClock()) as world:
            for line in NODES:
                await world.cluster.add_nodes(line)
            await world.pass_time(60)
            await create(world.cluster, deployment(4))
            await world.pass_time(60)
            pods = sorted(
                world.cluster.all(kinds.PODS), key=lambda pod: not pod["spec"]["nodeName"].startswith("on-demand")
            )
            for method, path, body in misdeed(world, pods):
                await world._served(method, path, {}, msgspec.json.encode(body), "application/json")
            return {violation.rule for violation in world.witness.violations}

    return run_virtually(go())


def evict(pod: dict[str, Any], *, uid: bool = True) -> tuple[str, str, dict[str, Any]]:
    name = pod["metadata"]["name"]
    options = {"preconditions": {"uid": pod["metadata"]["uid"]}} if uid else {}
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": "default"},
        "deleteOptions": options,
    }
    return "POST", f"/api/v1/namespaces/default/pods/{name}/eviction", body


ROOMY = Config()
TIGHT = Config(operator=Operator(disruption_limits=DisruptionLimits(per_workload=1)))


@pytest.mark.parametrize(
    ("misdeed", "config", "rules"),
    [
        (lambda _, pods: [], ROOMY, set()),
        (lambda _, pods: [evict(pods[-1])], ROOMY, set()),
        (lambda _, pods: [evict(pods[-1], uid=False)], ROOMY, {"S8"}),
        (
            lambda _, pods: [("DELETE", f"/api/v1/namespaces/default/pods/{pods[-1]['metadata']['name']}", {})],
            ROOMY,
            {"S4"},
        ),
        (lambda _, pods: [evict(pods[-1]), evict(pods[-2])], ROOMY, {"S4"}),
        (lambda _, pods: [evict(pods[-1]), evict(pods[-2])], TIGHT, {"S4", "S5"}),
        (lambda _, pods: [evict(pods[0])], ROOMY, {"S13"}),
    ],
    ids=["nothing", "one eviction", "no UID", "a deletion", "two at once", "too many", "the minimum"],
)
def test_what_must_not_happen_is_noticed(
    misdeed: Callable[[World, list[dict[str, Any]]], list[tuple[str, str, dict[str, Any]]]],
    config: Config,
    rules: set[str],
):
    assert broken(misdeed, config) == rules
