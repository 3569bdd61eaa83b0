"""K1 and C3 are the work that they are said to be."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.packing import workloads
from plimsoll.kube.types.core import Pod
from tests.scheduling.requests import requests_of
from tests.scheduling.rules import hard_spread, required_affinity, required_anti_affinity


def share(pod: Pod) -> str:
    """Which of the five shares a pod is of, by what it asks for."""
    if required_anti_affinity(pod):
        return "apart"
    if required_affinity(pod):
        return "together"
    return hard_spread(pod)[0].topology_key if hard_spread(pod) else "generic"


def test_k1_has_five_equal_shares_and_a_remainder_without_rules() -> None:
    pods = workloads.decoded(workloads.diverse_pods(103, 1), Pod)
    assert Counter(map(share, pods)) == {
        "generic": 23,
        workloads.ZONE: 20,
        workloads.HOSTNAME: 20,
        "together": 20,
        "apart": 20,
    }
    assert len({pod.uid for pod in pods}) == 103


def test_k1_is_the_same_for_a_seed_and_another_for_another() -> None:
    assert workloads.diverse_pods(50, 1) == workloads.diverse_pods(50, 1)
    assert workloads.diverse_pods(50, 1) != workloads.diverse_pods(50, 2)


def test_k1_draws_every_size() -> None:
    asked = [requests_of(pod) for pod in workloads.decoded(workloads.diverse_pods(500, 1), Pod)]
    assert {request["cpu"] for request in asked} == {100, 250, 500, 1000, 1500}
    assert {request["memory"] >> 20 for request in asked} == {100, 256, 512, 1024, 2048, 4096}


def test_k1_sells_four_hundred_types_five_ways() -> None:
    offerings = workloads.diverse_types().offerings
    assert len(offerings) == 2_000
    assert len({offering.name for offering in offerings}) == 2_000
    ways = Counter((o.labels[workloads.CAPACITY_TYPE], o.labels[workloads.ZONE]) for o in offerings)
    zones = [f"test-zone-{number}" for number in (1, 2, 3)]
    sold = [("spot", zone) for zone in zones[:2]] + [("on-demand", zone) for zone in zones]
    assert ways == dict.fromkeys(sold, 400)


def test_k1_types_keep_back_what_the_kubelet_needs_and_cost_what_the_machine_has() -> None:
    third = workloads.diverse_types().offerings[2 * 5]
    assert third.allocatable["cpu"].milli == 2_900
    assert third.allocatable["memory"].units == 6 * 2**30 - 10 * 2**20
    assert third.allocatable["pods"].units == 30
    assert third.price == pytest.approx(0.3 + 0.6 * 2**30 / 1e9)


@pytest.mark.parametrize("owners", [1, 200])
def test_c3_fills_every_node_to_forty_percent(owners: int) -> None:
    cluster = workloads.half_empty(owners, 1, nodes=20)
    used: Counter[str] = Counter()
    for pod in cluster.pods():
        used[pod.spec.node_name] += requests_of(pod)["cpu"]
    assert used == {node.name: 4_000 for node in cluster.nodes()}
    assert len(cluster.pods()) == 20 * 40


def test_owners_are_told_apart_by_a_label_and_by_nothing_else() -> None:
    plain = workloads.decoded(workloads.diverse_pods(100, 1), Pod)
    owned = workloads.decoded(workloads.diverse_pods(100, 1, owners=10), Pod)
    hashes = [pod.labels["pod-template-hash"] for pod in owned]
    assert 1 < len(set(hashes)) <= 10
    assert [pod.spec for pod in owned] == [pod.spec for pod in plain]
    for with_hash, without in zip(owned, plain, strict=True):
        assert dict(with_hash.labels) == {**without.labels, "pod-template-hash": with_hash.labels["pod-template-hash"]}
