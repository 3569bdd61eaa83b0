"""A node that can go leaves all of its pods in lawful places; one that cannot go really holds a pod with no other place."""

from __future__ import annotations

import pytest
from hypothesis import given

from plimsoll.kube.types.core import Pod
from plimsoll.scheduling.model import Constraint, Removal
from plimsoll.scheduling.removal import removable
from tests.scheduling import menus
from tests.scheduling.brute_force import order_of, way_to_place
from tests.scheduling.cases import Case, node, pod
from tests.scheduling.checker import Placement
from tests.scheduling.strategies import FINISHED, MIRROR, OF_A_DAEMONSET, TERMINATING, campaign, clusters, examples


def must_move(pod: Pod) -> bool:
    owner = pod.metadata.controller
    of_a_daemonset = owner is not None and owner.kind == "DaemonSet"
    return not (pod.terminating or of_a_daemonset or "kubernetes.io/config.mirror" in pod.annotations)


def check_removals(case: Case, answer: list[Removal]) -> None:
    """Follow the answers one after the other; each is true in the state that those before it leave behind."""
    now = case.at_hand()
    gone: set[str] = set()
    for removal in answer:
        moving = {pod.uid: pod for pod in now.pods_on[removal.node] if must_move(pod)}
        without = now.copy()
        without.remove_node(removal.node)
        if removal.plan is None:
            assert removal.reason is not None
            way = way_to_place(without, list(moving.values()))
            assert way is None, f"{removal.node}: {removal.reason}, but {[(p.pod.name, p.node_name) for p in way]}"
            continue
        assert removal.reason is None
        assert set(removal.plan) == set(moving)
        steps = [Placement(moving[uid], name) for uid, name in removal.plan.items()]
        gone.add(removal.node)
        assert not gone & {step.node_name for step in steps}
        assert order_of(without, steps) is not None, f"{removal.node}: in no order lawful: {removal.plan}"
        for step in steps:
            without.place(*step)
        now = without


@examples(80)
@given(clusters(max_nodes=4, max_pending=1, max_bound=8, max_templates=0))
def test_generated_clusters(case: Case) -> None:
    names = [node.name for node in case.nodes]
    snapshot = case.snapshot()
    answer = removable(snapshot, names)
    assert [removal.node for removal in answer] == names
    check_removals(case, answer)
    assert removable(snapshot, names) == answer, "asking changed the snapshot"


@pytest.mark.soak
@campaign(20_000)
@given(clusters(max_nodes=5, max_pending=1, max_bound=10, max_templates=0))
def test_many_more_clusters(case: Case) -> None:
    check_removals(case, removable(case.snapshot(), [node.name for node in case.nodes]))


HALF = menus.SIZES[1]  # of a node with two CPUs
TWO = {"cpu": "2", "memory": "4Gi", "pods": "10"}


def case_of(pods_on: dict[str, int]) -> Case:
    return Case(
        nodes=tuple(node(name, TWO, zone="z1") for name in pods_on),
        bound=tuple(pod(f"{name}-{n}", HALF, node=name) for name, count in pods_on.items() for n in range(count)),
    )


def test_a_free_place_is_counted_once() -> None:
    """Each of three half-full nodes could be emptied alone; together only some can."""
    case = case_of({"a": 1, "b": 1, "c": 1})
    answer = removable(case.snapshot(), ["a", "b", "c"])
    check_removals(case, answer)
    assert [removal.plan is not None for removal in answer].count(True) == 1


def test_a_node_that_received_pods_may_pass_them_on() -> None:
    case = case_of({"a": 1, "b": 0, "c": 1})
    answer = removable(case.snapshot(), ["a", "b"])
    check_removals(case, answer)
    assert all(removal.plan is not None for removal in answer)


def test_a_pod_with_rules_is_passed_on_step_by_step() -> None:
    """To n2 at once it could not go: n1 has none as long as it is there. Once n1 is gone, too, it may."""
    app = {"metadata": {"labels": {"app": "a"}}}
    spread = menus.evenly({"topologyKey": menus.HOSTNAME, "labelSelector": {"matchLabels": {"app": "a"}}})
    case = Case(
        nodes=tuple(node(name, TWO) for name in ("n0", "n1", "n2")),
        bound=(pod("spread", HALF, app, spread, node="n0"), pod("there", HALF, app, node="n2")),
    )
    answer = removable(case.snapshot(), ["n0", "n1"])
    check_removals(case, answer)
    assert [removal.plan for removal in answer] == [{"uid-spread": "n1"}, {"uid-spread": "n2"}]


def test_what_is_said_of_a_node_stays_true_when_pods_are_passed_on() -> None:
    """While p is on b, q finds no place. Sent to y at once, p would leave b to q, and that x had to stay would not be true."""
    four = {"cpu": "4", "memory": "4Gi", "pods": "10"}
    case = Case(
        nodes=(node("y", four), node("a", TWO), node("x", TWO), node("b", TWO)),
        bound=(pod("r", menus.SIZES[5], node="y"), pod("p", HALF, node="a"), pod("q", menus.SIZES[2], node="x")),
    )
    answer = removable(case.snapshot(), ["y", "a", "x", "b"])
    check_removals(case, answer)
    assert [removal.plan for removal in answer] == [None, {"uid-p": "b"}, None, {"uid-p": "y"}]


def test_pods_take_a_further_step_at_once_where_no_node_was_refused_since() -> None:
    case = Case(
        nodes=tuple(node(name, TWO) for name in ("y", "a", "x", "b", "c")),
        bound=(
            *(
                pod(f"y{n}", menus.SIZES[0], {"spec": {"nodeSelector": {"kubernetes.io/hostname": "y"}}}, node="y")
                for n in "01"
            ),
            pod("p", HALF, node="a"),
            pod("q", menus.SIZES[2], node="x"),
        ),
    )
    answer = removable(case.snapshot(), ["y", "a", "b", "c"])
    check_removals(case, answer)
    assert [removal.plan for removal in answer] == [None, {"uid-p": "y"}, {}, {}]


def test_places_on_a_node_that_could_not_go_still_count() -> None:
    case = Case(
        nodes=(node("a", TWO), node("b", TWO), node("cordoned", TWO, unschedulable=True)),
        bound=(pod("p", HALF, node="a"), pod("q", HALF, node="cordoned")),
    )
    answer = removable(case.snapshot(), ["a", "b", "cordoned"])
    check_removals(case, answer)
    assert [removal.plan is not None for removal in answer] == [True, False, True]


@pytest.mark.parametrize("state", [TERMINATING, FINISHED, OF_A_DAEMONSET, MIRROR])
def test_pods_that_end_with_their_node_need_no_place(state: menus.Fragment) -> None:
    case = Case(nodes=(node("n", TWO),), bound=(pod("p", HALF, state, node="n"),))
    assert removable(case.snapshot(), ["n"]) == [Removal("n", plan={})]


def test_the_last_node_cannot_go_and_says_why() -> None:
    case = case_of({"a": 1})
    [removal] = removable(case.snapshot(), ["a"])
    assert removal.plan is None
    assert removal.reason is not None and removal.reason.rule is Constraint.RESOURCES
    assert "cpu" in removal.reason.message


def test_a_node_that_is_not_there() -> None:
    [removal] = removable(Case().snapshot(), ["elsewhere"])
    assert removal.reason is not None and removal.reason.rule is Constraint.NODE_UNKNOWN
