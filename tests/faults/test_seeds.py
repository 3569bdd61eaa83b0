"""A campaign is a function of its seed."""

from __future__ import annotations

from random import Random

from tests.faults.calls import Call
from tests.faults.faults import CrashAfter, CrashBefore
from tests.faults.seeds import FaultPlan

CALLS = [
    Call("list", "pods"),
    Call("watch", "pods"),
    Call("patch", "pods", name="web-1"),
    Call("create", "pods", "eviction", name="web-1"),
    Call("create", "configmaps"),
    Call("patch", "leases", name="plimsoll"),
    Call("list", "pods", params={"continue": "abc"}),
]


def run(seed: int, calls: list[Call]) -> dict[str, list[str]]:
    """The faults that a plan draws, by sort of call and in order."""
    plan = FaultPlan.from_seed(seed)
    seen: dict[str, list[str]] = {}
    for call in calls:
        seen.setdefault(call.sort, []).append(str(plan.faults(call)))
    return seen


def test_the_same_seed_strikes_the_same_way_whatever_the_interleaving() -> None:
    calls = CALLS[:6] * 20
    shuffled = list(calls)
    Random(1).shuffle(shuffled)
    for seed in range(20):
        plan = FaultPlan.from_seed(seed)
        again = FaultPlan.from_seed(seed)
        assert [str(plan.draw(call, 3)) for call in calls] == [str(again.draw(call, 3)) for call in calls]
    # Crashes are rationed over the whole run; all other draws do not depend on what came between.
    reads = [call for call in calls if not call.works]
    shuffled_reads = [call for call in shuffled if not call.works]
    assert all(run(seed, reads) == run(seed, shuffled_reads) for seed in range(20))


def test_seeds_differ() -> None:
    assert len({str(run(seed, CALLS * 10)) for seed in range(50)}) == 50


def test_faults_stop() -> None:
    for seed in range(50):
        plan = FaultPlan.from_seed(seed)
        for call in CALLS * 20:
            plan.faults(call)
        assert all(plan.faults(call) == [] for call in CALLS * 5)


def test_every_sort_of_call_meets_each_of_its_faults() -> None:
    drawn: dict[str, set[str]] = {}
    for seed in range(300):
        plan = FaultPlan.from_seed(seed)
        for call in CALLS:
            for nth in range(1, 9):
                if (fault := plan.draw(call, nth)) is not None:
                    drawn.setdefault(call.sort, set()).add(type(fault).__name__)
    assert {"CrashBefore", "CrashAfter", "ResetBefore", "ResetAfter", "Misreport"} <= drawn["create configmaps"]
    assert {"EndWatch", "LateEvents", "DropBookmarks", "TellTwice", "Answer"} <= drawn["watch pods"]
    # The lease is never the place of a crash: where the process dies is decided by what it does for the cluster.
    assert not {"CrashBefore", "CrashAfter"} & drawn["patch leases"]


def test_crashes_are_few() -> None:
    for seed in range(50):
        plan = FaultPlan.from_seed(seed)
        faults = [fault for call in CALLS * 20 for fault in plan.faults(call)]
        assert sum(isinstance(fault, CrashBefore | CrashAfter) for fault in faults) <= 3
