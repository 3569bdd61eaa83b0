"""A whole snapshot plus the changes after it equals a later whole snapshot, and only changed records are sent."""

from __future__ import annotations

import random
from datetime import timedelta

from msgspec.structs import replace

from plimsoll.dashboard.history import Histories
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.resources import PODS, Key
from plimsoll.runtime.outcome import Outcome
from tests import build
from tests.clocks import StandingClock
from tests.dashboard.scene import ALL, Scene, merged, read, shown


async def test_nothing_is_told_where_nothing_changed() -> None:
    scene = Scene()
    snapshot = scene.snapshot()
    await snapshot.renew()
    assert not snapshot.stale
    pod = next(iter(scene.view[PODS]))
    scene.put(replace(pod, metadata=replace(pod.metadata, resource_version="9999")))
    version = snapshot.version
    assert await snapshot.renew() is None
    assert snapshot.version == version


async def test_only_the_node_whose_pod_changed_is_told() -> None:
    scene = Scene()
    snapshot = scene.snapshot()
    await snapshot.renew()
    scene.put(build.pod("one-more", node="n2"))
    change = read(await snapshot.renew() or b"")
    assert change["whole"] is False
    assert change["nodes"].keys() == {"n2"}
    assert not any(change[section] for section in ("workloads", "groups", "pending", "allocations"))


async def test_a_pod_that_is_bound_leaves_those_that_wait() -> None:
    scene = Scene()
    snapshot = scene.snapshot()
    waiting = build.pod("late", node="", phase="Pending")
    scene.put(waiting)
    await snapshot.renew()
    scene.put(replace(waiting, spec=replace(waiting.spec, node_name="n3")))
    change = read(await snapshot.renew() or b"")
    assert change["pending"] == {"default/late": None}
    assert change["nodes"].keys() == {"n3"}


async def test_a_node_that_goes_is_gone() -> None:
    scene = Scene()
    snapshot = scene.snapshot()
    await snapshot.renew()
    scene.remove(build.node("n1"))
    assert read(await snapshot.renew() or b"")["nodes"] == {"n1": None}


async def test_a_workload_that_goes_is_gone() -> None:
    scene = Scene()
    snapshot = scene.snapshot()
    scene.decide(snapshot)
    await snapshot.renew()
    assert "Deployment/default/web" in read(snapshot.whole())["workloads"]
    scene.remove(scene.web)
    key = Key("Deployment", "default", "web")
    for controller in scene.controllers:
        snapshot.acted(controller.name, key, controller.decide(key, scene.view, scene.clock.now()), Outcome())
    assert read(await snapshot.renew() or b"")["workloads"] == {"Deployment/default/web": None}


async def test_pods_that_came_before_their_replica_set_find_their_workload() -> None:
    scene = Scene()
    other = build.deployment("late")
    its_set = build.replica_set("late-1", owner=other)
    scene.put(build.pod("late-1-a", owner=its_set, node="n1"))
    snapshot = scene.snapshot()
    await snapshot.renew()
    scene.put(its_set)
    change = read(await snapshot.renew() or b"")
    assert ["late-1-a", "Deployment/default/late", "r"] in change["nodes"]["n1"]["pods"]


async def test_becoming_leader_is_told() -> None:
    scene = Scene()
    snapshot = scene.snapshot()
    await snapshot.renew()
    scene.leading = True
    assert snapshot.stale
    assert read(await snapshot.renew() or b"")["operator"]["leader"] is True


async def test_whole_and_changes_are_the_same_whatever_happens() -> None:
    rng = random.Random(11)
    scene = Scene(*ALL)
    snapshot = scene.snapshot()
    scene.decide(snapshot)
    await snapshot.renew()
    page = read(snapshot.whole())
    for round_ in range(60):
        for number in range(rng.randrange(1, 6)):
            _happen(scene, rng, f"{round_}-{number}")
        if rng.random() < 0.3:
            scene.decide(snapshot)
        change = await snapshot.renew()
        if change is not None:
            page = merged(page, read(change))
        fresh = read(snapshot.whole())
        assert shown(page) == shown(fresh)
    anew = scene.snapshot()
    await anew.renew()
    assert read(anew.whole())["nodes"] == page["nodes"]
    assert read(anew.whole())["pending"] == page["pending"]


def _happen(scene: Scene, rng: random.Random, name: str) -> None:
    pods: list[Pod] = list(scene.view[PODS])
    match rng.randrange(6):
        case 0:
            scene.put(build.node(f"node-{name}", labels={"karpenter.sh/nodepool": rng.choice("xyz")}))
        case 1:
            scene.put(build.pod(f"pod-{name}", node=rng.choice(("n1", "n2", "nowhere"))))
        case 2:
            scene.put(build.pod(f"pod-{name}", node="", phase="Pending"))
        case 3 if pods:
            pod = rng.choice(pods)
            if not pod.spec.node_name:
                scene.put(replace(pod, spec=replace(pod.spec, node_name="n3")))
        case 4 if pods:
            scene.remove(rng.choice(pods))
        case _:
            nodes = [one for one in scene.stores if one.kind == "Node"]
            store = scene.stores[nodes[0]]
            if len(store) > 2:
                scene.remove(rng.choice(list(store)))


async def test_groups_have_a_history() -> None:
    clock = StandingClock()
    scene = Scene(clock=clock)
    snapshot = scene.snapshot()
    scene.put(build.node("k1", labels={"karpenter.sh/nodepool": "general"}))
    snapshot.sample()
    await snapshot.renew()
    for number in (2, 3):
        clock.wall_offset += timedelta(minutes=1)
        scene.put(build.node(f"k{number}", labels={"karpenter.sh/nodepool": "general"}))
        change = read(await snapshot.renew() or b"")
        assert change["groups"]["general"]["point"][1:] == [number, number, None]
        assert "history" not in change["groups"]["general"]
    clock.wall_offset += timedelta(minutes=1)
    snapshot.sample()
    sampled = read(await snapshot.renew() or b"")["groups"]["general"]
    assert sampled["point"][1:] == [3, 3, None]
    history = read(snapshot.whole())["groups"]["general"]["history"]
    assert [point[1] for point in history][-1] == 3
    assert sorted({point[1] for point in history}) == [1, 2, 3]
    assert [point[0] for point in history] == sorted(point[0] for point in history)


def test_a_history_keeps_a_day_and_leaves_out_what_a_line_shows_anyway() -> None:
    histories = Histories()
    for minute in range(3 * 24 * 60):
        histories.add("steady", (minute * 60, 5, 5, 5))
        histories.add("busy", (minute * 60, minute % 7, 5, 5))
    assert len(histories.of("steady")) == 2
    busy = histories.of("busy")
    assert len(busy) <= 24 * 60
    assert busy[0][0] >= (2 * 24 * 60 - 1) * 60
    histories.forget_before(3 * 24 * 3600 + 1)
    assert histories.of("steady") == []
