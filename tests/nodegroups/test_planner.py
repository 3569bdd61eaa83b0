"""Large packings are worked out in a process of their own: the decision goes without an answer, and finds it at the next look."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from benchmarks.nodegroups.cluster import NOW, inventories, view_of
from plimsoll.controllers.nodegroups.controller import CLUSTER, GroupsDecision, NodeGroupController
from plimsoll.controllers.nodegroups.planner import SMALL, InlinePlanner, Planner, PlannerWorker, WorkerPlanner
from plimsoll.controllers.nodegroups.settings import NodeGroupSettings
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.resources import NODES, PODS, Key
from plimsoll.runtime.clock import Clock, RealClock
from tests.clocks import StandingClock
from tests.eventually import eventually

LARGE: dict[str, Any] = {"nodes": SMALL, "pods_a_node": 1, "waiting": 40, "cpu": "8"}
IDLE: dict[str, Any] = {"nodes": SMALL + 1, "pods_a_node": 2, "waiting": 0, "cpu": "100m"}


RUNNING = ExitStack()


def served(clock: Clock | None = None) -> WorkerPlanner:
    """A planner whose questions a worker would answer."""
    planner = WorkerPlanner(clock or StandingClock())
    RUNNING.enter_context(planner.served())
    return planner


def controller(planner: Planner) -> NodeGroupController:
    settings = NodeGroupSettings(unschedulable_pod_grace=timedelta(0))
    return NodeGroupController(settings, inventories(), planner=planner)


def decided(one: NodeGroupController, view: View, seconds: int = 0) -> GroupsDecision:
    decision = one.decide(CLUSTER, view, NOW + timedelta(seconds=seconds))
    assert isinstance(decision, GroupsDecision)
    return decision


def answered_by(planner: WorkerPlanner) -> int:
    """What the worker would say to every question that is open."""
    count = 0
    while (taken := planner.take()) is not None:
        place, question, snapshot = taken
        planner.record(place, question, question.task(snapshot)())
        count += 1
    return count


async def test_the_worker_says_what_would_have_been_worked_out_at_once() -> None:
    planner, looked = served(RealClock()), list[Key]()
    at_once, deferred = controller(InlinePlanner()), controller(planner)
    view = view_of(at_once, **LARGE)
    wanted = decided(at_once, view)
    assert wanted.reason.code == "ScalingUp"
    first = decided(deferred, view)
    assert (first.reason.code, first.actions) == ("Computing", ())
    watching = asyncio.create_task(PlannerWorker(planner, RealClock()).run(view, lambda: True, looked.append))
    await eventually(lambda: looked == [CLUSTER], "the key is looked at again")
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert decided(deferred, view).actions == wanted.actions


def test_small_questions_are_answered_at_once() -> None:
    planner = served()
    one = controller(planner)
    view = view_of(one, nodes=20, pods_a_node=1, waiting=4, cpu="8")
    assert decided(one, view).reason.code == "ScalingUp"
    assert answered_by(planner) == 0


def test_what_was_worked_out_at_once_holds_until_anything_is_another() -> None:
    planner = served()
    one = controller(planner)
    view = view_of(one, nodes=20, pods_a_node=1, waiting=4, cpu="8")
    first = decided(one, view)
    assert decided(one, view).scale_up == first.scale_up
    waiting = next(pod for pod in view[PODS] if not pod.spec.node_name)
    view[PODS].remove(waiting.namespace, waiting.name)
    fewer = decided(one, view)
    assert (fewer.scale_up.helped, first.scale_up.helped) == (3, 4), "another question"
    for pod in [pod for pod in view[PODS] if pod.spec.node_name]:
        view[PODS].remove(pod.namespace, pod.name)
    assert decided(one, view).scale_up == decided(controller(InlinePlanner()), view).scale_up, (
        "the same question, another cluster"
    )
    assert decided(one, view).scale_up != fewer.scale_up


def test_pods_that_come_meanwhile_do_not_void_an_answer() -> None:
    planner = served()
    one = controller(planner)
    view = view_of(one, **LARGE)
    decided(one, view)
    assert answered_by(planner) == 1
    more = view_of(one, **{**LARGE, "waiting": 60})
    late = [pod for pod in more[PODS] if view[PODS].get(pod.namespace, pod.name) is None]
    for pod in late:
        view[PODS].put(pod)
    now = decided(one, view)
    assert now.reason.code == "ScalingUp"
    assert now.scale_up.helped == 40, "those of the question; the others come next"


def test_an_answer_is_void_once_its_pods_or_groups_are_others_or_it_is_old() -> None:
    clock = StandingClock()
    planner = served(clock)
    one = controller(planner)
    view = view_of(one, **LARGE)
    decided(one, view)
    assert answered_by(planner) == 1
    waiting = next(pod for pod in view[PODS] if not pod.spec.node_name)
    view[PODS].remove(waiting.namespace, waiting.name)
    assert decided(one, view).reason.code == "Computing", "a pod that it helps is gone"
    assert answered_by(planner) == 1
    clock.push(60)
    assert decided(one, view).reason.code == "Computing", "it is a minute old"
    assert answered_by(planner) == 1
    assert decided(one, view).reason.code == "ScalingUp"


def test_nodes_go_only_once_their_pods_are_known_to_have_a_place() -> None:
    planner = served()
    one = controller(planner)
    view = view_of(one, **IDLE)
    decided(one, view)
    asking = decided(one, view, 30)
    assert (asking.reason.code, asking.actions) == ("Computing", ())
    assert answered_by(planner) == 1
    going = decided(one, view, 31)
    assert going.reason.code == "ScalingDown"
    assert len([action for action in going.actions if "underutilized" in action.why.message]) == 1


def test_where_many_might_go_all_get_their_turn() -> None:
    """Fifty are looked at closely in one decision; those that are kept make room for the next."""
    one = controller(InlinePlanner())
    view = view_of(one, **{**IDLE, "nodes": 120})
    disabled = "autoscaler.vpsie.com/scale-down"
    for node in list(view[NODES])[:115]:
        view[NODES].put(_annotated(node, disabled))
    decided(one, view)
    kept: set[str] = set()
    for second in range(30, 40):
        decision = decided(one, view, second)
        kept |= {stays.candidate.name for stays in decision.blocked_nodes}
        if decision.reason.code == "ScalingDown":
            break
    assert decision.reason.code == "ScalingDown", "behind a hundred that stay there are some that may go"
    assert len(kept) > 50


def _annotated(node: Any, annotation: str) -> Any:
    return replace(node, metadata=replace(node.metadata, annotations={annotation: "disabled"}))
