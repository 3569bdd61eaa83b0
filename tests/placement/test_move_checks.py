"""What holds up a move, each thing by itself: its code, its words, and until when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest

from plimsoll.controllers.placement.rebalance.next_action import NextAction
from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.controllers.placement.spec import DURATION, SCHEDULE
from plimsoll.controllers.placement.window import DisruptionWindow
from plimsoll.kube.codec import builtins, convert
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.resources import PODS, Key
from plimsoll.runtime.decision import DisruptionLimits
from tests import build
from tests.placement.scene import (
    ON_DEMAND,
    SPOT,
    Scene,
    codes,
    drifted,
    evicted,
    namespace,
    on_demand_node,
    spot_node,
    stamp,
)

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


def test_pods_that_have_no_node_are_named_and_nothing_is_settled():
    scene = Scene(replicas=2, spot="50%", minimum="0", status={"availableReplicas": 1})
    scene.pod("web-0", node="od-1", mark=ON_DEMAND)
    scene.pod("web-1", node="", phase="Pending", mark=SPOT)
    decision = scene.decide()
    assert decision.reason.code == "Waiting"
    assert "1 pod without a node, such as web-1" in decision.reason.message


def test_pods_of_the_class_in_excess_that_have_no_node_are_not_called_unmovable():
    scene = Scene(replicas=2, spot="0%", minimum="0", status={"availableReplicas": 1})
    scene.pod("web-0", node="od-1", mark=ON_DEMAND)
    scene.pod("web-1", node="", phase="Pending", mark=SPOT)
    decision = scene.decide()
    assert codes(decision) == ["ReplicasPending"]
    assert "such as web-1" in decision.blockers[0].message


def test_with_nothing_in_the_way_one_replica_of_the_class_in_excess_is_evicted():
    decision = drifted().decide()
    assert decision.action is NextAction.MIGRATE_TO_SPOT
    assert decision.blockers == ()
    (name,) = evicted(decision)
    assert name.startswith("od-1")
    assert decision.state is not None and (decision.state.spot_drift, decision.state.on_demand_drift) == (-3, 3)


def test_too_much_on_spot_moves_the_other_way():
    scene = Scene()
    scene.running(8, 2)
    decision = scene.decide()
    assert decision.action is NextAction.MIGRATE_TO_ON_DEMAND
    (name,) = evicted(decision)
    assert name.startswith("spot-1")
    assert decision.reason.message.endswith("to on-demand: 8 on spot and 2 on-demand, 6 and 4 are wanted")


def test_a_settled_workload_writes_nothing_and_asks_for_no_other_look():
    scene = Scene()
    scene.running(6, 4)
    decision = scene.decide()
    assert (decision.reason.code, decision.actions, decision.requeue_after) == ("Settled", (), None)


@pytest.mark.parametrize(
    "status",
    [{"observedGeneration": 2}, {"updatedReplicas": 9}, {"replicas": 12}],
    ids=["not taken up", "not all updated", "surge still there"],
)
def test_a_rollout_comes_first(status: dict[str, int]):
    decision = drifted(status=status).decide()
    assert codes(decision) == ["RolloutInProgress"]
    assert decision.actions == ()


def test_a_replica_that_is_not_ready_comes_first():
    scene = drifted()
    scene.pod("spot-1-0", node="spot-1", mark=SPOT, ready=False)
    assert codes(scene.decide()) == ["ReplicasNotReady"]


def large(*, failing: int, budget: bool = True) -> Scene:
    """200 replicas of which 120 should be on spot and 100 are; some of those on spot have been unready for an hour."""
    scene = Scene(replicas=200, status={"availableReplicas": 200 - failing})
    for number in range(200):
        node, here = ("spot-1", SPOT) if number < 100 else ("od-1", ON_DEMAND)
        scene.pod(f"web-{number}", node=node, mark=here, ready=number >= failing, ready_for=timedelta(hours=1))
    scene.add(spot_node("spot-1", pods=500), on_demand_node("od-1", pods=500))
    if budget:
        scene.add(build.budget(selector={"matchLabels": {"app": "web"}}, allowed=5))
    return scene


@pytest.mark.parametrize(("failing", "moves"), [(0, True), (1, True), (10, True), (11, False)])
def test_a_share_of_failing_replicas_blocks_no_move(failing: int, moves: bool):
    decision = large(failing=failing).decide()
    assert bool(evicted(decision)) is moves
    assert codes(decision) == ([] if moves else ["ReplicasNotReady"])


def test_without_a_disruption_budget_one_replica_at_a_time_is_missing():
    assert codes(large(failing=1, budget=False).decide()) == ["ReplicasNotReady"]


def test_a_replica_that_is_just_starting_still_blocks_the_next_move():
    scene = large(failing=0)
    scene.pod("web-0", node="spot-1", mark=SPOT, ready=False, ready_for=SECOND)
    assert codes(scene.decide()) == ["ReplicasNotReady"]


@pytest.mark.parametrize("stateful_set", [False, True])
def test_a_failing_replica_of_the_class_in_excess_is_the_first_to_move(stateful_set: bool):
    scene = Scene(replicas=4, spot="50%", minimum="3", stateful=stateful_set, status={"availableReplicas": 3})
    for number in range(4):
        scene.pod(f"web-{number}", node="od-1", mark=ON_DEMAND, ready=number != 0, ready_for=timedelta(hours=1))
    decision = scene.decide()
    assert evicted(decision) == ["web-0"], "though only three are available, all of which must stay"


def test_a_replica_that_is_ready_but_not_for_long_enough_comes_first():
    assert codes(drifted(status={"availableReplicas": 9}).decide()) == ["ReplicasNotReady"]


def test_the_minimum_on_demand_stays_ready():
    settings = PlacementSettings(moving_percentage=50)  # so that replicas may be missing
    scene = Scene(replicas=4, spot="50%", minimum="2", settings=settings)
    scene.pod("spot-1-0", node="spot-1", mark=SPOT)
    for number in range(3):
        scene.pod(f"od-1-{number}", node="od-1", mark=ON_DEMAND, ready=number > 0, ready_for=SECOND)
    scene.add(build.budget(selector={"matchLabels": {"app": "web"}}, allowed=2))
    assert codes(scene.decide()) == ["MinimumOnDemand"]


def test_the_last_ready_replica_stays():
    scene = Scene(replicas=1, spot="100%", minimum="0")
    scene.running(0, 1)
    assert codes(scene.decide()) == ["LastReady"]


def test_a_budget_that_allows_nothing_holds_everything_up():
    scene = drifted()
    scene.add(build.budget(selector={"matchLabels": {"app": "web"}}, allowed=0))
    assert codes(scene.decide()) == ["NotEnoughPdb"]


def test_two_budgets_over_one_pod_mean_never():
    scene = drifted()
    scene.add(build.budget("one", allowed=1), build.budget("two", allowed=1))
    assert codes(scene.decide()) == ["SeveralBudgets"]


def test_a_budget_that_selects_by_expressions_counts():
    scene = drifted()
    scene.add(
        build.budget(selector={"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}, allowed=0)
    )
    assert codes(scene.decide()) == ["NotEnoughPdb"]


def test_the_cooldown_lasts_from_the_last_disruption_that_was_written_down():
    scene = drifted(settings=PlacementSettings(cooldown=timedelta(seconds=30)))
    scene.disrupted(scene.now - 10 * SECOND)
    decision = scene.decide()
    assert codes(decision) == ["Cooldown"]
    assert decision.blockers[0].until == scene.now + 20 * SECOND
    assert decision.requeue_after == 20 * SECOND
    assert codes(scene.decide(after=19 * SECOND)) == ["Cooldown"]
    assert evicted(scene.decide(after=20 * SECOND))


def test_a_clock_that_was_ahead_does_not_shut_the_cooldown_for_hours():
    """A leader whose clock was an hour ahead recorded a disruption; its successor would wait for an hour, 10 s at a time."""
    scene = drifted()
    scene.disrupted(scene.now + timedelta(hours=1))
    assert evicted(scene.decide())
    assert evicted(scene.decide(after=30 * MINUTE))


def test_a_clock_that_was_a_little_ahead_makes_the_cooldown_a_little_longer():
    scene = drifted()
    scene.disrupted(scene.now + 5 * SECOND)
    (blocker,) = scene.decide().blockers
    assert (blocker.code, blocker.until) == ("Cooldown", scene.now + 15 * SECOND)


def test_someone_elses_disruption_does_not_count_for_the_cooldown():
    scene = drifted()
    scene.disrupted(scene.now - SECOND, workload=Key("Deployment", "default", "other"))
    assert evicted(scene.decide())


class TestWindow:
    NIGHT: ClassVar = {SCHEDULE: "0 2 * * *", DURATION: "2h"}
    NOON: ClassVar = {SCHEDULE: "0 12 * * *", DURATION: "2h"}

    def test_closed_until_it_opens_and_open_until_it_closes(self):
        scene = drifted(annotations=self.NIGHT)
        scene.now = datetime(2026, 1, 1, 1, tzinfo=UTC)
        decision = scene.decide()
        assert codes(decision) == ["WindowClosed"]
        assert decision.requeue_after == timedelta(hours=1)
        assert evicted(scene.decide(after=timedelta(hours=1)))
        assert codes(scene.decide(after=timedelta(hours=3))) == ["WindowClosed"]

    @pytest.mark.parametrize(
        ("workload", "of_namespace", "operator", "opens_at"),
        [(True, True, True, 2), (False, True, True, 12), (False, False, True, 20), (False, False, False, None)],
    )
    def test_workload_before_namespace_before_operator_before_always(
        self, workload: bool, of_namespace: bool, operator: bool, opens_at: int | None
    ):
        window = DisruptionWindow("0 20 * * *", timedelta(hours=2)) if operator else None
        scene = drifted(annotations=self.NIGHT if workload else {}, settings=PlacementSettings(window=window))
        scene.add(namespace(self.NOON if of_namespace else {}))
        scene.now = datetime(2026, 1, 1, 1, tzinfo=UTC)
        decision = scene.decide()
        if opens_at is None:
            assert evicted(decision)
        else:
            assert [blocker.until for blocker in decision.blockers] == [datetime(2026, 1, 1, opens_at, tzinfo=UTC)]

    def test_a_namespaces_window_that_cannot_be_read_is_no_permission(self):
        scene = drifted()
        scene.add(namespace({SCHEDULE: "0 2 * * *"}))
        decision = scene.decide()
        assert codes(decision) == ["InvalidWindow"]
        (problem,) = decision.problems
        assert (problem.code, problem.regarding.key) == ("InvalidAnnotations", Key("Namespace", "", "default"))
        assert DURATION in problem.message

    def test_nor_does_it_concern_a_workload_that_has_its_own(self):
        scene = drifted(annotations={SCHEDULE: "* * * * *", DURATION: "1h"})
        scene.add(namespace({SCHEDULE: "nonsense", DURATION: "1h"}))
        decision = scene.decide()
        assert evicted(decision) and not decision.problems


class TestBurstGuard:
    HOUR = timedelta(hours=1)

    def test_of_the_workload(self):
        scene = drifted(settings=PlacementSettings(migrations=DisruptionLimits(2, 50, self.HOUR)))
        scene.disrupted(scene.now - timedelta(minutes=50), scene.now - timedelta(minutes=20))
        decision = scene.decide()
        assert codes(decision) == ["MigrationLimit"]
        assert decision.blockers[0].until == scene.now + timedelta(minutes=10)
        assert evicted(scene.decide(after=timedelta(minutes=10)))

    def test_of_the_cluster(self):
        scene = drifted(settings=PlacementSettings(migrations=DisruptionLimits(10, 3, self.HOUR)))
        for name in ("a", "b", "c"):
            scene.disrupted(scene.now - timedelta(minutes=30), workload=Key("Deployment", "default", name))
        assert codes(scene.decide()) == ["MigrationLimit"]

    def test_the_door_is_told_the_same_limits(self):
        limits = DisruptionLimits(2, 50, self.HOUR)
        (action,) = drifted(settings=PlacementSettings(migrations=limits)).decide().actions
        assert getattr(action, "within", None) == limits

    def test_zero_moves_nothing(self):
        scene = drifted(settings=PlacementSettings(migrations=DisruptionLimits(0, 50, self.HOUR)))
        assert codes(scene.decide()) == ["MigrationLimit"]


class TestRoom:
    def test_no_room_on_spot_no_eviction(self):
        scene = drifted()
        scene.add(spot_node(pods=3))
        decision = scene.decide()
        assert codes(decision) == ["NoPlaceToMovePods"]
        assert "spot node" in decision.blockers[0].message

    @pytest.mark.parametrize(
        ("field", "value", "says"),
        [
            ("resourceClaims", [{"name": "gpu", "resourceClaimName": "mine"}], "uses resource claims (mine)"),
            ("schedulingGroup", {"podGroupName": "g"}, "spec.schedulingGroup may constrain scheduling"),
        ],
    )
    def test_a_pod_that_the_engine_cannot_judge_is_not_moved(self, field: str, value: Any, says: str):
        """Members of a gang and holders of devices stay where they are."""
        scene = drifted(template={field: value})
        scene.objects[PODS][:] = [
            convert({**(body := builtins(pod)), "spec": {**body["spec"], field: value}}, Pod)
            for pod in scene.objects[PODS]
        ]
        decision = scene.decide()
        assert codes(decision) == ["NoPlaceToMovePods"]
        assert says in decision.blockers[0].message

    def test_room_that_someone_elses_pod_is_about_to_take_does_not_count(self):
        scene = drifted()
        scene.add(spot_node(pods=4))
        assert evicted(scene.decide())
        only_spot = {"nodeSelector": {"karpenter.sh/capacity-type": "spot"}}
        scene.add(build.pod("other", node="", phase="Pending", spec=only_spot))
        assert codes(scene.decide()) == ["NoPlaceToMovePods"]

    def test_room_on_a_node_that_may_go_does_not_count(self):
        scene = drifted()
        scene.add(
            spot_node(pods=3), spot_node("spot-2", "DeletionCandidateOfClusterAutoscaler", effect="PreferNoSchedule")
        )
        assert codes(scene.decide()) == ["NoPlaceToMovePods"]

    def test_a_replica_too_large_for_any_spot_node_stays(self):
        large = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "100"}}}]}
        assert codes(drifted(template=large).decide()) == ["NoPlaceToMovePods"]

    def test_an_external_autoscaler_is_trusted_to_make_room(self):
        scene = drifted(settings=PlacementSettings(external_autoscaler=True))
        scene.add(spot_node(pods=3))
        assert evicted(scene.decide())

    def test_the_picture_follows_the_view(self):
        """The answer is that of the view at hand, whatever was asked before."""
        scene = drifted()
        scene.add(spot_node(pods=3))
        assert codes(scene.decide()) == ["NoPlaceToMovePods"]
        scene.add(spot_node("spot-2"))
        assert evicted(scene.decide())
        scene.objects = {kind: [o for o in held if o.name != "spot-2"] for kind, held in scene.objects.items()}
        assert codes(scene.decide()) == ["NoPlaceToMovePods"]


class TestReplacementsObey:
    def test_a_replacement_that_admission_did_not_see_stops_the_moving_for_a_while(self):
        scene = drifted()
        scene.disrupted(scene.now - timedelta(minutes=2))
        scene.pod("od-1-0", node="od-1", creationTimestamp=stamp(scene.now - MINUTE))
        decision = scene.decide()
        assert codes(decision) == ["AdmissionAbsent"]
        assert decision.blockers[0].until == scene.now + timedelta(minutes=8)
        assert evicted(scene.decide(after=timedelta(minutes=8)))

    def test_one_that_it_saw_lets_it_go_on(self):
        scene = drifted()
        scene.disrupted(scene.now - timedelta(minutes=2))
        scene.pod("od-1-0", node="od-1", mark=ON_DEMAND, creationTimestamp=stamp(scene.now - MINUTE))
        assert evicted(scene.decide())

    def test_one_of_several_that_it_did_not_see_is_no_reason_to_stop(self):
        scene = drifted()
        scene.disrupted(scene.now - timedelta(minutes=2))
        scene.pod("od-1-0", node="od-1", creationTimestamp=stamp(scene.now - MINUTE))
        scene.pod("od-1-1", node="od-1", mark=ON_DEMAND, creationTimestamp=stamp(scene.now - MINUTE))
        assert evicted(scene.decide())

    def test_one_that_someone_sent_elsewhere_stops_it_too(self):
        scene = drifted()
        scene.disrupted(scene.now - timedelta(minutes=2))
        scene.pod("od-1-0", node="od-1", mark=SPOT, creationTimestamp=stamp(scene.now - MINUTE))
        decision = scene.decide()
        assert codes(decision) == ["MovesUndone"]
        assert "od-1-0" in decision.reason.message and "spot" in decision.reason.message
        assert evicted(scene.decide(after=timedelta(minutes=8)))


def test_all_that_stands_in_the_way_is_told_and_the_first_end_is_waited_for():
    scene = drifted(annotations=TestWindow.NIGHT, status={"updatedReplicas": 9})
    scene.disrupted(scene.now - SECOND)
    decision = scene.decide()
    assert codes(decision) == ["RolloutInProgress", "WindowClosed", "Cooldown"]
    assert decision.reason.code == "Blocked"
    assert decision.requeue_after == 9 * SECOND


def test_what_is_held_up_for_an_unknown_time_is_looked_at_again_after_the_retry_interval():
    scene = drifted(settings=PlacementSettings(retry_interval=timedelta(seconds=77)))
    scene.add(build.budget(allowed=0))
    assert scene.decide().requeue_after == timedelta(seconds=77)


def test_a_share_of_the_replicas_may_move_at_once_where_a_budget_allows_it():
    scene = drifted(settings=PlacementSettings(moving_percentage=40))
    assert len(evicted(scene.decide())) == 1, "without a budget it is one"
    scene.add(build.budget(allowed=2, selector={"matchLabels": {"app": "web"}}))
    assert len(evicted(scene.decide())) == 2
    scene.add(build.budget(allowed=8, selector={"matchLabels": {"app": "web"}}))
    assert len(evicted(scene.decide())) == 3, "no more than are on the wrong class"
    scene.add(spot_node(pods=5))
    assert len(evicted(scene.decide())) == 1, "no more than there is room for, found by halves"


def together(scene: Scene) -> int:
    """How many move at once where a budget does not count."""
    scene.add(build.budget(allowed=50, selector={"matchLabels": {"app": "web"}}))
    return len(evicted(scene.decide()))


def test_a_pod_that_has_no_node_yet_is_not_moved():
    scene = Scene(settings=PlacementSettings(moving_percentage=50))
    scene.running(8, 1)
    scene.waiting("waits", since=scene.now - SECOND)
    assert together(scene) == 3
    assert "waits" not in scene.decide().moving


def test_of_those_that_move_together_some_are_missing_already():
    scene = Scene(spot="60%", settings=PlacementSettings(moving_percentage=30), status={"availableReplicas": 9})
    scene.running(0, 10)
    assert together(scene) == 2


def test_of_those_that_move_together_one_stays_ready():
    scene = Scene(replicas=3, spot="0%", minimum="0", settings=PlacementSettings(moving_percentage=100))
    scene.running(3, 0)
    assert together(scene) == 2


def test_of_those_that_move_together_the_minimum_on_demand_stays_ready():
    scene = Scene(spot="80%", settings=PlacementSettings(moving_percentage=100), status={"availableReplicas": 7})
    scene.running(0, 7)
    for number in range(3):
        scene.pod(f"starting-{number}", node="od-1", mark=ON_DEMAND, ready=False, ready_for=SECOND)
    assert together(scene) == 5, "of seven that are ready, two must stay"


@pytest.mark.parametrize(
    ("limits", "workload"),
    [(DisruptionLimits(100, 5, timedelta(hours=1)), "other"), (DisruptionLimits(5, 100, timedelta(hours=1)), "web")],
)
def test_of_those_that_move_together_no_more_than_the_limits_have_left(limits: DisruptionLimits, workload: str):
    settings = PlacementSettings(moving_percentage=100, migrations=limits, cooldown=timedelta(0))
    scene = Scene(spot="60%", settings=settings)
    scene.running(0, 10)
    scene.disrupted(*[scene.now - n * MINUTE for n in (20, 30, 40)], workload=Key("Deployment", "default", workload))
    assert together(scene) == 2


@pytest.mark.parametrize(
    ("annotation", "value", "stays"),
    [
        ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false", True),
        ("cluster-autoscaler.kubernetes.io/safe-to-evict", "true", False),
        ("karpenter.sh/do-not-disrupt", "true", True),
        ("karpenter.sh/do-not-disrupt", "2h", True),
        ("karpenter.sh/do-not-disrupt", "1s", False),
    ],
)
def test_pods_that_say_they_must_not_be_moved_are_not(annotation: str, value: str, stays: bool):
    scene = Scene(replicas=2, spot="50%", minimum="0")
    scene.running(0, 2, annotations={annotation: value})
    decision = scene.decide(after=MINUTE)
    assert (codes(decision) == ["NothingMovable"]) is stays
    assert bool(evicted(decision)) is not stays


def test_of_those_that_could_move_the_cheapest_goes():
    cost = "controller.kubernetes.io/pod-deletion-cost"
    wish = {"descheduler.alpha.kubernetes.io/prefer-no-eviction": ""}
    scene = Scene(spot="100%", minimum="0")
    scene.running(5, 0)
    for name, marks, hours in (
        ("old", {cost: "5"}, 9),
        ("young", {cost: "5"}, 1),
        ("cheap", {cost: "-1"}, 9),
        ("shy", {cost: "-9", **wish}, 9),
        ("odd", {cost: "x"}, 9),
    ):
        scene.pod(name, node="od-1", mark=ON_DEMAND, ready_for=timedelta(hours=hours), annotations=marks)
    assert scene.decide().moving == ("cheap", "odd", "young", "old", "shy")


def test_an_empty_cluster_leads_to_no_eviction():
    scene = drifted()
    scene.objects = {kind: [] if kind.kind == "Node" else held for kind, held in scene.objects.items()}
    assert not evicted(scene.decide())
    scene.add(on_demand_node())
    assert codes(scene.decide()) == ["NoPlaceToMovePods"]
