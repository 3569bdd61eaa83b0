"""Complete lifecycles of groups, in memory and virtual time."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from plimsoll.controllers.nodegroups.settings import NodeGroupSettings
from plimsoll.kube.types.resources import NAMESPACES, NODES
from tests.nodegroups.cloud import LARGE, SMALL, Cloud
from tests.nodegroups.world import World, said

QUICK = {"underutilizationDuration": "30s", "cooldownSeconds": 20}


def ready(world: World) -> int:
    return sum(1 for member in world.members() if member.phase == "Ready")


def test_from_zero_to_three_and_back() -> None:
    world = World()
    world.group(minNodes=1, scaleDownPolicy=QUICK)
    world.workload("web", 6)
    world.run(60)
    assert ready(world) == 3, "\n".join(said(world))
    assert all(pod.spec.node_name for pod in world.pods())
    world.scale("web", 1)
    world.run(300)
    assert ready(world) == len(world.members()) == len(world.cloud.machines) == 1, "\n".join(said(world))
    assert len(world.api.objects[NODES]) == 1
    before = len(world.log)
    world.run(120)
    assert len(world.log) == before, "L2: nothing more is written"


def test_the_minimum_and_the_floor_need_no_pods() -> None:
    world = World()
    world.group(minNodes=2)
    world.group("scaled", desiredNodes=3)
    world.run(60)
    assert len(world.cloud.machines) == 5


def test_two_groups_and_one_pod_is_one_node() -> None:
    world = World()
    world.group("first")
    world.group("second")
    world.workload("web", 1)
    world.run(60)
    assert len(world.cloud.machines) == 1


def test_the_maximum_holds_whatever_waits() -> None:
    """S7 is judged at every step, by what the cloud has."""
    world = World()
    world.group(maxNodes=2)
    world.workload("web", 20)
    world.run(60)
    assert len(world.cloud.machines) == 2
    world.change_group(maxNodes=3)
    world.run(60)
    assert len(world.cloud.machines) == 3


def test_similar_groups_grow_alike() -> None:
    world = World()
    world.group("here")
    world.group("there", datacenterID="dc-2")
    world.workload("web", 8)
    world.run(60)
    groups = [machine.group for machine in world.cloud.machines.values()]
    assert sorted(groups) == ["default.here"] * 2 + ["default.there"] * 2


@pytest.mark.parametrize(
    ("expander", "offering"),
    [("least-waste", "small"), ("price", "large"), ("most-pods", "large"), ("priority", "small")],
)
def test_expanders(expander: str, offering: str) -> None:
    settings = NodeGroupSettings(expander=expander, unschedulable_pod_grace=timedelta(0))  # type: ignore[arg-type]
    cloud = Cloud([replace(SMALL, price_per_hour=0.3), replace(LARGE, price_per_hour=0.2)])
    world = World(settings, cloud)
    world.group("s", priority=10)
    world.group("l", offeringIDs=["large"])
    world.workload("web", 3, cpu="600m")
    world.run(60)
    assert {machine.offering for machine in cloud.machines.values()} == {offering}


def test_the_random_expander_chooses_by_the_pods() -> None:
    """By chance, and yet the same for the same pods."""

    def chosen(number: int) -> str:
        world = World(NodeGroupSettings(expander="random", unschedulable_pod_grace=timedelta(0)))
        world.group("s")
        world.group("t", offeringIDs=["large"])
        for _ in range(number):
            world.api.put(NAMESPACES, {"metadata": {"name": "other"}})  # so that pods have other UIDs
        world.workload("web", 1)
        world.run(3)
        (member,) = world.members()
        return member.spec.node_group_name

    found = [chosen(number) for number in range(12)]
    assert set(found) == {"s", "t"}
    assert found == [chosen(number) for number in range(12)]


def test_with_mixed_instances_each_node_is_what_fits() -> None:
    def offerings(*, mixed: bool) -> list[str]:
        world = World()
        world.group(offeringIDs=["small", "large"], allowMixedInstances=mixed)
        world.workload("web", 1, cpu="900m")
        world.workload("big", 1, cpu="5")
        world.run(40)
        return sorted(machine.offering for machine in world.cloud.machines.values())

    assert offerings(mixed=False) == ["small"], "the first that is available, whatever pods need"
    assert "large" in offerings(mixed=True)


def test_every_phase_leaves_its_time() -> None:
    world = World()
    world.group(desiredNodes=1, scaleDownPolicy=QUICK)
    world.run(30)
    (member,) = world.members()
    status = member.status
    times = [status.created_at, status.provisioned_at, status.joined_at, status.ready_at]
    assert None not in times
    assert times == sorted(times, key=str)
    world.change_group(desiredNodes=0)
    context: dict[str, set[str]] = {}
    for _ in range(120):
        world.run(1)
        for one in world.members():
            stamps = {name for name in ("terminating_at", "deleted_at") if getattr(one.status, name) is not None}
            context.setdefault(one.phase, set()).update(stamps)
    assert context["Terminating"] == {"terminating_at"}
    assert context["Deleting"] == {"terminating_at", "deleted_at"}


def test_the_preferred_offering_then_the_first_available() -> None:
    world = World()
    world.group(offeringIDs=["small", "large"], preferredInstanceType="large")
    world.workload("web", 1)
    world.run(30)
    assert [machine.offering for machine in world.cloud.machines.values()] == ["large"]
    other = World()
    other.cloud.sold_out.add("large")
    other.group(offeringIDs=["small", "large"], preferredInstanceType="large")
    other.workload("web", 1)
    other.run(30)
    assert [machine.offering for machine in other.cloud.machines.values()] == ["small"]


def test_a_quota_holds_the_group_back_and_another_helps() -> None:
    world = World()
    world.cloud.quota = 0
    world.group("first")
    world.workload("web", 1)
    world.run(30)
    backoffs = world.the_group("first").status.backoffs
    assert [(one.reason, one.failures) for one in backoffs] == [("QuotaExceeded", 1)]
    assert not world.members(), "what failed is cleared away"
    tried = sum("CreateMachine" in text or "Transaction refused" in text for _, text in world.log)
    world.restart()
    world.run(240)
    assert sum("CreateMachine" in text or "Transaction refused" in text for _, text in world.log) == tried
    world.cloud.quota = None
    world.run(120)
    assert len(world.cloud.machines) == 1


def test_machines_that_never_join_are_replaced_by_another_group() -> None:
    world = World()
    world.cloud.never_join.add("small")
    world.group("first", offeringIDs=["small"])
    world.group("second", offeringIDs=["large"])
    world.workload("web", 1)
    world.run(17 * 60 + 60)
    assert [machine.offering for machine in world.cloud.machines.values()] == ["large"], "\n".join(said(world))
    assert world.the_group("first").status.backoffs[0].reason == "JoiningTimeout"


def test_a_maximum_that_was_lowered() -> None:
    world = World()
    world.group(scaleDownPolicy=QUICK)
    world.workload("web", 8, cpu="100m")
    world.group("other", desiredNodes=3, scaleDownPolicy=QUICK)
    world.run(60)
    world.formerly_allowed["other"] = 3
    world.change_group("other", maxNodes=1, desiredNodes=1)
    world.run(300)
    assert sum(machine.group == "default.other" for machine in world.cloud.machines.values()) == 1, "\n".join(
        said(world)
    )


def test_nodes_get_the_labels_and_taints_of_their_group() -> None:
    """The cloud of this world makes bare nodes."""
    world = World()
    world.group(desiredNodes=1, labels={"team": "a"}, taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}])
    world.run(30)
    (node,) = world.api.typed(NODES)
    assert node.labels["team"] == "a"
    assert node.labels["autoscaler.vpsie.com/nodegroup"] == "workers"
    assert [(taint.key, taint.value) for taint in node.spec.taints] == [("gpu", "yes")]
    world.workload("web", 1)
    world.run(60)
    assert len(world.cloud.machines) == 1, "no node of the group would take the pod"
