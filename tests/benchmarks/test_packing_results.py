"""What the packing benchmark prints: the agreed JSON, and ratios and promises that follow from what was measured."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace

import pytest

from benchmarks.packing import workloads
from benchmarks.packing.__main__ import main
from benchmarks.packing.handover import HandOver, measure_handover
from benchmarks.packing.measure import Emptied, Packed, Timing, emptied, faster, timed
from benchmarks.packing.peers import KarpenterPlan, plan, rates
from benchmarks.packing.results import Results
from benchmarks.report import Figure, Report


def packed(pods: int, seconds: float, **other: float) -> Packed:
    found = Packed(pods, 1, Timing(seconds, seconds), pods // 5, pods * 0.25, 0, Counter())
    return replace(found, **other)  # type: ignore[arg-type]


def of_karpenter(pods: int, seconds: float, *, nodes: int | None = None, price: float | None = None) -> KarpenterPlan:
    return KarpenterPlan(pods, 0, nodes or pods // 5, price or pods * 0.3, seconds, seconds * 1.5, None)


def figure(report: Report, name: str) -> Figure:
    return next(figure for figure in report.figures if figure.name == name)


def k1(ours: Packed, peer: KarpenterPlan) -> Report:
    return Results(k1=[ours], karpenter={(ours.pods, 1): peer}).report(1, [1])


# ── for programs ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_command_prints_one_object_of_the_agreed_shape(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--json", "--only", "K1", "--pods", "50", "--pods", "100", "--seed", "1", "--seed", "2", "--runs", "1"]
    monkeypatch.setattr(sys, "argv", ["benchmarks.packing", *arguments])
    assert main() == 0
    found = json.loads(capsys.readouterr().out)
    assert [(run["pods"], run["seed"]) for run in found["K1"]] == [(50, 1), (50, 2), (100, 1), (100, 2)]
    for run in found["K1"]:
        assert run["podsPerSecond"] == pytest.approx(run["pods"] / run["seconds"])
        assert run["nodes"] >= run["pods"] // 5
        assert run["price"] > 0
        assert run["violations"] == run["unplaced"] == 0
    assert not {"C1", "C2", "C3"} & found.keys()


def test_c1_c2_and_c3_are_objects() -> None:
    alike = Emptied(1, Timing(0.1, 0.1), 1_200, Counter())
    mixed = Emptied(200, Timing(0.2, 0.2), 1_199, Counter(resources=2))
    found = Results(c1=packed(51_000, 0.1, nodes=2_595), c2=packed(50_000, 0.1), c3=[alike, mixed]).as_json()
    assert found["C1"]["seconds"] == 0.1
    assert found["C1"]["nodes"] == 2_595
    assert found["C2"]["nodes"] == 10_000
    assert (found["C3"]["seconds"], found["C3"]["removed"]) == (0.1, 1_200)
    assert [(run["owners"], run["removed"], run["violations"]) for run in found["C3"]["mixed"]] == [(200, 1_199, 2)]
    json.dumps(found)


# ── ratios and promises ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("seconds", "kept"), [(0.1, True), (0.11, False)])
def test_three_hundred_times_karpenters_pods_a_second(seconds: float, kept: bool) -> None:
    report = k1(packed(5_000, seconds), of_karpenter(5_000, 30.0))
    speed = figure(report, "K1, 5,000 pods: slowest seed")
    assert speed.ratio == pytest.approx(30.0 / seconds)
    assert speed.kept is kept
    assert report.kept is kept


def test_small_sizes_promise_no_speed() -> None:
    assert k1(packed(500, 1.0), of_karpenter(500, 2.0)).kept


@pytest.mark.parametrize("peer", [of_karpenter(5_000, 60.0, nodes=999), of_karpenter(5_000, 60.0, price=1_249.0)])
def test_neither_more_nodes_nor_a_higher_price_than_karpenter(peer: KarpenterPlan) -> None:
    assert k1(packed(5_000, 0.1), of_karpenter(5_000, 60.0, price=1_250.0)).kept
    assert not k1(packed(5_000, 0.1), peer).kept


def test_the_slowest_seed_counts() -> None:
    runs = [packed(5_000, 0.1), packed(5_000, 0.2, seed=2)]
    report = Results(k1=runs, karpenter={(5_000, 1): of_karpenter(5_000, 30.0)}).report(1, [1, 2])
    assert figure(report, "K1, 5,000 pods: slowest seed").ours == 25_000


def test_the_seed_that_compares_worst_is_shown() -> None:
    runs = [packed(500, 0.1, price=100.0), packed(500, 0.1, seed=2, price=111.0)]
    peers = {(500, 1): of_karpenter(500, 2.0, price=105.0), (500, 2): of_karpenter(500, 2.0, price=110.0)}
    price = figure(Results(k1=runs, karpenter=peers).report(1, [1, 2]), "K1, 500 pods: price")
    assert (price.ours, price.peer, price.kept) == (111.0, 110.0, False)


def test_a_pod_that_breaks_a_rule_or_has_no_place_breaks_a_promise() -> None:
    assert not Results(k1=[replace(packed(500, 0.1), broken=Counter(resources=1))]).report(1, [1]).kept
    assert not Results(k1=[packed(500, 0.1, unplaced=1)]).report(1, [1]).kept


def test_without_a_peer_the_quoted_figure_is_shown_and_promises_nothing() -> None:
    report = Results(k1=[packed(5_000, 10.0)]).report(1, [1])
    assert figure(report, "K1, 5,000 pods: slowest seed").peer == 133
    assert "quoted" in report.peer
    assert report.kept


def test_growth_is_the_time_a_pod_takes_among_many() -> None:
    report = Results(k1=[packed(1_000, 0.1), packed(20_000, 4.0)]).report(1, [1])
    assert figure(report, "K1: time a pod, 20,000 against 1,000").ours == pytest.approx(2.0)
    assert not report.kept


def test_a_slow_hand_over_breaks_its_promise() -> None:
    assert not Results(handover=HandOver(5_000, 150_000, 9.0, 0.05, 0.11)).report(1, [1]).kept


# ── measuring ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_run_gets_fresh_objects_and_the_fastest_counts() -> None:
    given: list[list[int]] = []

    def prepare() -> list[int]:
        given.append([])
        return given[-1]

    timing, last, answer = timed(3, prepare, lambda fresh: fresh.append(1) or len(fresh))  # type: ignore[func-returns-value]
    assert [len(fresh) for fresh in given] == [1, 1, 1, 1], "and one before the three, which does not count"
    assert last is given[-1]
    assert answer == 1
    assert timing.seconds >= 0


def test_of_two_measurements_the_faster_counts() -> None:
    found = faster(packed(500, 0.2), packed(500, 0.1))
    assert found.pods_per_second == 5_000
    assert found.pods_per_cpu_second == 5_000


def test_nodes_that_can_go_are_counted_and_their_pods_followed() -> None:
    found = emptied(workloads.half_empty(1, 1, nodes=20), 1, 1)
    assert found.removed == 12
    assert not found.broken


def test_a_hand_over_is_more_than_writing_the_snapshot_down() -> None:
    found = measure_handover(1, nodes=20, pods_a_node=2)
    assert found.pods == 40
    assert found.megabytes > 0
    assert found.seconds > found.held_seconds > 0


# ── Karpenter's words ────────────────────────────────────────────────────────────────────────────────────────────────

_BENCHMARK = """goos: linux
BenchmarkScheduling500-2    \t       1\t2232142857 ns/op\t       100.0 nodes\t       500.0 pods\t       224.0 pods/sec
BenchmarkScheduling1000     \t       1\t4347826086 ns/op\t       200.0 nodes\t      1000 pods\t       230.5 pods/sec
PASS
"""


def test_karpenters_own_benchmark_is_read() -> None:
    assert rates(_BENCHMARK) == {500: 224.0, 1_000: 230.5}


def test_karpenters_plan_is_read_and_the_faster_of_its_runs_counts() -> None:
    line = {"pods": 500, "unplaced": 0, "nodes": 100, "price": 140.5, "seconds": 2.0, "cpuSeconds": 3.0}
    output = f"PLAN {json.dumps(line)}\nPASS\n"
    assert plan(output, None).pods_per_second == 250
    assert plan(output, 224.0).pods_per_second == 250
    assert plan(output, 300.0).pods_per_second == 300
    assert plan(output, None).price == 140.5


def test_a_run_without_a_plan_says_what_it_printed() -> None:
    with pytest.raises(RuntimeError, match="no pods"):
        plan("--- FAIL: no pods", None)
