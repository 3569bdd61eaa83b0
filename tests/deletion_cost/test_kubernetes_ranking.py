"""The ReplicaSet controller's order, criterion by criterion."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from plimsoll.controllers.deletion_cost.replicaset_ranking import deletion_order, pods_on_nodes
from plimsoll.controllers.deletion_cost.values import COST, parse_cost
from plimsoll.kube.types.core import ContainerStatus, Pod
from plimsoll.kube.workloads import active
from tests import build


def cost(pod: Pod) -> int:
    return parse_cost(pod.annotations.get(COST, "0")) or 0


def order(*pods: Pod, others: tuple[Pod, ...] = ()) -> list[str]:
    ranked = deletion_order(pods, cost, pods_on_nodes((*pods, *others)), build.START)
    backwards = deletion_order(pods[::-1], cost, pods_on_nodes((*pods, *others)), build.START)
    assert ranked == backwards, "the order in which pods are listed must not matter"
    return [pod.name for pod in ranked]


def pod(name: str, **fields: Any) -> Pod:
    """Each on a node of its own, so that only what a test names differs."""
    return build.pod(name, **{"node": f"node-{name}", "uid": f"uid-{name}", **fields})


def test_without_a_node_before_all_others() -> None:
    assert order(pod("a", phase="Pending"), pod("b", node="", phase="Pending")) == ["b", "a"]


def test_pending_then_unknown_then_running() -> None:
    assert order(pod("a"), pod("b", phase="Unknown"), pod("c", phase="Pending")) == ["c", "b", "a"]


def test_not_ready_before_ready_whatever_they_cost() -> None:
    dear = pod("a", ready=False, annotations={COST: "2147483647"})
    cheap = pod("b", annotations={COST: "-2147483648"})
    assert order(cheap, dear) == ["a", "b"]


def test_the_lower_cost_first_and_none_is_zero() -> None:
    costs = {"a": {COST: "1"}, "b": {}, "c": {COST: "-1"}}
    assert order(*(pod(name, annotations=annotations) for name, annotations in costs.items())) == ["c", "b", "a"]


def test_cost_counts_before_company_and_age() -> None:
    young_and_crowded = pod("a", node="n", annotations={COST: "1"}, ready_for=timedelta(seconds=1))
    assert order(young_and_crowded, pod("b"), others=(pod("x", node="n"),)) == ["b", "a"]


def test_more_company_on_the_node_first_also_of_other_replica_sets() -> None:
    assert order(pod("a"), pod("b", node="n"), others=(pod("x", node="n"),)) == ["b", "a"]


def test_company_that_is_leaving_does_not_count() -> None:
    old = {"a": timedelta(minutes=10), "b": timedelta(hours=10)}
    crowd = (pod("x", node="node-b", terminating=True), pod("y", node="node-b", phase="Failed"))
    assert order(*(pod(name, ready_for=age) for name, age in old.items()), others=crowd) == ["a", "b"]


def test_ready_for_a_shorter_time_first() -> None:
    assert order(pod("a", ready_for=timedelta(hours=8)), pod("b", ready_for=timedelta(minutes=1))) == ["b", "a"]


def test_ages_within_a_power_of_two_are_alike_and_the_smaller_uid_decides() -> None:
    # 2^40 ns is 18.3 minutes, 2^39 ns is 9.2: both of these lie between.
    older, younger = pod("b", ready_for=timedelta(minutes=17)), pod("a", ready_for=timedelta(minutes=10))
    assert order(older, younger) == ["a", "b"]
    assert order(pod("a", ready_for=timedelta(minutes=17)), pod("b", ready_for=timedelta(minutes=10))) == ["a", "b"]


def test_more_restarts_first_only_at_equal_ready_times() -> None:
    calm, restarted = pod("a"), pod("b")
    restarted = replace(restarted, status=replace(restarted.status, container_statuses=(ContainerStatus("x", 3),)))
    assert order(calm, restarted) == ["b", "a"]
    long_ready = replace(
        restarted, status=replace(restarted.status, conditions=pod("z", ready_for=timedelta(days=9)).status.conditions)
    )
    assert order(calm, long_ready) == ["a", "b"]


def test_the_newer_first_at_last() -> None:
    old = (build.START - timedelta(days=3)).isoformat()
    new = (build.START - timedelta(minutes=3)).isoformat()
    assert order(pod("a", creationTimestamp=old), pod("b", creationTimestamp=new)) == ["b", "a"]


def test_active_is_neither_leaving_nor_finished() -> None:
    assert active(pod("a"))
    assert active(pod("a", phase="Pending"))
    assert not active(pod("a", terminating=True))
    assert not active(pod("a", phase="Succeeded"))
    assert not active(pod("a", phase="Failed"))


def test_times_ahead_of_our_clock_are_all_alike_and_the_youngest() -> None:
    ahead = {"b": timedelta(hours=-2), "c": timedelta(hours=-1)}
    pods = [pod(name, ready_for=age) for name, age in ahead.items()]
    assert order(*pods, pod("a", ready_for=timedelta(seconds=1))) == ["b", "c", "a"]
    assert order(pod("c", ready_for=ahead["b"]), pod("b", ready_for=ahead["c"])) == ["b", "c"]
