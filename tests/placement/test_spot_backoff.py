"""Spot runs short: who is replaced, when, how fast; and how the workload holds back and comes back."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from plimsoll.controllers.placement.annotations import CLASS
from plimsoll.controllers.placement.replica_counts import replicas
from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.controllers.placement.spec import DURATION, SCHEDULE
from plimsoll.controllers.placement.spot_backoff import KIND, SpotBackoff, pause, spot_blocker, unproven_pause
from plimsoll.kube.codec import convert
from plimsoll.kube.shards import shard_name
from plimsoll.kube.types.resources import DEPLOYMENTS, Key
from plimsoll.kube.workloads import pods_of
from plimsoll.runtime.decision import Create, Evict, Patch
from tests import build
from tests.placement.scene import ON_DEMAND, SPOT, Scene, codes, evicted, spot_node, stamp

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


def short(count: int = 1, **fields: object) -> Scene:
    """Ten replicas, six to be on spot, of which so many have been waiting for a node for three minutes."""
    scene = Scene(**fields)  # type: ignore[arg-type]
    scene.running(6 - count, 4)
    for number in range(count):
        scene.waiting(f"waits-{number}", since=scene.now - 3 * MINUTE)
    return scene


def test_a_pod_that_has_not_waited_long_is_looked_at_when_it_has():
    scene = Scene()
    scene.running(5, 4)
    scene.waiting("waits", since=scene.now - MINUTE)
    decision = scene.decide()
    assert decision.actions == ()
    assert decision.requeue_after == MINUTE


def test_the_pause_is_written_down_before_anyone_is_replaced():
    scene = short()
    (action,) = scene.decide().actions
    assert isinstance(action, Create)
    (text,) = action.body["data"].values()
    record = msgspec.json.decode(text, type=SpotBackoff)
    assert (record.since, record.until, record.shortages) == (scene.now, scene.now + 5 * MINUTE, 1)


def test_once_it_is_in_view_the_waiting_pod_is_replaced():
    scene = short()
    scene.backs_off(since=scene.now, until=scene.now + 5 * MINUTE)
    (action,) = scene.decide(after=SECOND).actions
    assert isinstance(action, Evict)
    assert action.pod.name == "waits-0"
    assert action.event is not None and action.event.reason == "SpotFallback"


def test_nothing_that_guards_pods_that_run_holds_it_back():
    scene = short(annotations={SCHEDULE: "0 2 * * *", DURATION: "1m"}, status={"updatedReplicas": 3})
    scene.now += timedelta(hours=6)
    scene.objects[next(kind for kind in scene.objects if kind.kind == "Pod")].clear()
    scene.running(5, 4)
    scene.waiting("waits", since=scene.now - 3 * MINUTE)
    scene.backs_off(since=scene.now, until=scene.now + 5 * MINUTE)
    scene.disrupted(scene.now - SECOND)
    scene.add(build.budget(allowed=0))
    assert evicted(scene.decide()) == ["waits"]


def test_while_someone_is_replaced_nobody_else_is_moved():
    scene = Scene(settings=PlacementSettings(moving_percentage=50))
    scene.running(8, 1)
    scene.waiting("waits", since=scene.now - 3 * MINUTE)
    scene.backs_off(since=scene.now, until=scene.now + 5 * MINUTE)
    scene.add(build.budget(allowed=5, selector={"matchLabels": {"app": "web"}}))
    assert evicted(scene.decide()) == ["waits"]


def test_no_more_than_the_limit_are_replaced_in_a_minute():
    scene = short(5, settings=PlacementSettings(max_fallbacks_per_minute=3))
    scene.backs_off(since=scene.now, until=scene.now + 5 * MINUTE)
    assert len(evicted(scene.decide())) == 3
    scene.fallen_back("new", created=scene.now - 20 * SECOND)
    decision = scene.decide()
    assert len(evicted(decision)) == 2
    (blocker,) = (b for b in decision.blockers if b.code == "FallbackLimit")
    assert blocker.until == scene.now + 40 * SECOND
    assert len(evicted(scene.decide(after=40 * SECOND))) == 3


@pytest.mark.parametrize(
    ("condition", "mark"),
    [
        ({"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}, "spot"),
        ({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}, "on-demand"),
        ({"type": "PodScheduled", "status": "True"}, "spot"),
    ],
)
def test_only_pods_of_class_spot_that_the_scheduler_cannot_place_are_replaced(condition: dict[str, str], mark: str):
    scene = Scene()
    scene.running(5, 4)
    pod = scene.pod("waits", phase="Pending", annotations={"plimsoll.dev/placement-class": mark})
    long_ago = {**condition, "lastTransitionTime": stamp(scene.now - timedelta(hours=1))}
    scene.add(
        msgspec.structs.replace(pod, status=convert({"phase": "Pending", "conditions": [long_ago]}, type(pod.status)))
    )
    assert scene.decide().actions == ()


@pytest.mark.parametrize("preempting", [True, False], ids=["victims are terminating", "a stale nomination"])
def test_a_pod_for_which_others_are_preempted_is_not_replaced(preempting: bool):
    scene = short()
    (pod,) = (p for held in scene.objects.values() for p in held if p.name == "waits-0")
    scene.add(msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, nominated_node_name="spot-1")))  # type: ignore[attr-defined]
    scene.add(build.pod("victim", node="spot-1", terminating=preempting, spec={"priority": -1}))
    assert (scene.decide().actions == ()) is preempting


def test_a_shortage_soon_after_the_last_makes_the_pause_longer():
    scene = short()
    scene.backs_off(since=scene.now - 6 * MINUTE, until=scene.now - MINUTE)
    (action,) = scene.decide().actions
    assert isinstance(action, Patch)
    record = msgspec.json.decode(action.body["data"][scene.workload.uid], type=SpotBackoff)  # type: ignore[call-overload]
    assert (record.until - record.since, record.shortages) == (10 * MINUTE, 2)


def test_a_shortage_long_after_the_last_starts_anew():
    scene = short()
    scene.backs_off(since=scene.now, until=scene.now - 2 * unproven_pause(4), shortages=4)
    (action,) = scene.decide().actions
    assert isinstance(action, Patch)
    record = msgspec.json.decode(action.body["data"][scene.workload.uid], type=SpotBackoff)  # type: ignore[call-overload]
    assert record.shortages == 1


def test_the_pause_grows_from_five_minutes_to_thirty():
    assert [pause(shortages) // MINUTE for shortages in (1, 2, 3, 4, 5, 1000)] == [5, 10, 20, 30, 30, 30]


def test_writing_strikes_out_what_is_long_past_and_what_cannot_be_read():
    scene = short()
    old = SpotBackoff(scene.key, scene.now - timedelta(days=1), scene.now - timedelta(days=1))
    recent = SpotBackoff(scene.key, scene.now, scene.now + MINUTE)
    encode = msgspec.json.encode
    from plimsoll.controllers.placement.spot_backoff import backoff_shard

    scene.remember(
        backoff_shard(scene.workload.uid), "placement",
        {"old": encode(old).decode(), "recent": encode(recent).decode(), "odd": "edited by hand"},
    )  # fmt: skip
    (action,) = scene.decide().actions
    assert isinstance(action, Patch)
    assert {uid: text is None for uid, text in action.body["data"].items()} == {  # type: ignore[call-overload]
        scene.workload.uid: False, "old": True, "odd": True,
    }  # fmt: skip


class TestReturn:
    """After the pause, one replica shows whether spot is back."""

    def held(self, scene: Scene) -> str | None:
        view = scene.view()
        found = replicas(pods_of(scene.workload, view), view, scene.settings.rules)
        blocker = spot_blocker(scene.workload.uid, found, view, scene.now, scene.settings)
        return blocker.code if blocker else None

    def fallen(self, *, until: timedelta) -> Scene:
        scene = Scene()
        scene.running(4, 6)
        scene.backs_off(since=scene.now - timedelta(hours=1), until=scene.now + until)
        return scene

    def test_nobody_moves_while_the_pause_lasts(self):
        scene = self.fallen(until=MINUTE)
        decision = scene.decide()
        assert codes(decision) == ["SpotHeldBack"]
        assert decision.requeue_after == MINUTE
        assert self.held(scene) == "SpotHeldBack"

    def test_then_one_is_sent_and_no_second_one_while_it_waits(self):
        scene = self.fallen(until=-MINUTE)
        assert self.held(scene) is None
        assert len(evicted(scene.decide())) == 1
        scene.waiting("sent", since=scene.now)
        assert self.held(scene) == "SpotReturning"

    def test_even_where_several_could_move_at_once(self):
        scene = self.fallen(until=-MINUTE)
        scene.controller = type(scene.controller)(PlacementSettings(moving_percentage=50))
        scene.add(build.budget(allowed=5, selector={"matchLabels": {"app": "web"}}))
        assert len(evicted(scene.decide())) == 1

    def test_once_one_has_found_a_node_spot_is_back(self):
        scene = self.fallen(until=-MINUTE)
        scene.pod("sent", node="spot-1", mark=SPOT, creationTimestamp=stamp(scene.now))
        scene.waiting("next", since=scene.now)
        assert self.held(scene) is None

    def test_a_pod_that_found_one_before_the_shortage_shows_nothing(self):
        scene = self.fallen(until=-MINUTE)
        scene.waiting("sent", since=scene.now)
        assert self.held(scene) == "SpotReturning"

    def test_another_shortage_holds_back_again(self):
        scene = self.fallen(until=-5 * MINUTE)
        scene.pod("od-1-0", node="od-1", mark=ON_DEMAND)
        scene.waiting("sent", since=scene.now - 3 * MINUTE)
        (action,) = scene.decide().actions
        assert isinstance(action, Patch)

    def test_a_workload_of_the_same_name_starts_without_a_past(self):
        scene = self.fallen(until=MINUTE)
        later = Scene()
        later.objects[later.settings.memory] = scene.objects[scene.settings.memory]
        assert self.held(later) is None


# ── another autoscaler is assumed to add nodes ───────────────────────────────────────────────────────────────────────────


def full(**fields: object) -> Scene:
    """Ten replicas on-demand of which six belong on spot, where no node has room; another workload is there too."""
    scene = Scene(settings=PlacementSettings(external_autoscaler=True), **fields)  # type: ignore[arg-type]
    scene.running(0, 10)
    scene.add(spot_node("spot-1", pods=0))
    return scene


def short_for_another(scene: Scene, *, until: timedelta) -> None:
    """Spot ran short for Deployment other, whose record is in another ConfigMap or the same."""
    other = build.deployment("other", replicas=1)
    scene.add(other)
    record = SpotBackoff(Key("Deployment", "default", "other"), scene.now - 5 * MINUTE, scene.now + until)
    scene.remember(shard_name(KIND, other.uid), "placement", {other.uid: msgspec.json.encode(record).decode()})


def test_without_a_shortage_one_replica_tries_whether_the_autoscaler_delivers():
    scene = full()
    scene.add(build.budget(selector={"matchLabels": {"app": "web"}}, allowed=5))
    assert len(scene.decide().actions) == 1


@pytest.mark.parametrize("until", [5 * MINUTE, -5 * MINUTE])
def test_no_serving_replica_of_any_workload_is_given_up_for_a_place_that_another_did_not_find(until: timedelta):
    scene = full()
    short_for_another(scene, until=until)
    decision = scene.decide()
    assert (decision.actions, [blocker.code for blocker in decision.blockers]) == ((), ["SpotUnproven"])
    assert decision.blockers[0].until == scene.now + until + unproven_pause(1)


def test_a_node_that_has_room_is_proof_enough():
    scene = full()
    short_for_another(scene, until=5 * MINUTE)
    scene.add(spot_node("spot-2"))
    assert len(scene.decide().actions) == 1


def test_a_replica_of_the_other_workload_that_found_a_spot_node_ends_it():
    scene = full()
    short_for_another(scene, until=-5 * MINUTE)
    other = next(one for one in scene.objects[DEPLOYMENTS] if one.name == "other")
    replica_set = build.replica_set("other-1", replicas=1, owner=other)
    back = build.pod(
        "back", owner=replica_set, node="spot-1", annotations={CLASS: "spot"}, creationTimestamp=stamp(scene.now)
    )
    scene.add(replica_set, back)
    assert len(scene.decide().actions) == 1
