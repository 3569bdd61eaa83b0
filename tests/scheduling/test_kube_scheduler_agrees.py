"""kube-scheduler and `fits` agree: kube-scheduler binds a pod to a node exactly if we say that it fits.

Each pod prefers one node. Its scheduler profile runs every filter and scores nothing but that preference (see `real`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plimsoll.kube.codec import convert
from plimsoll.kube.types.core import Pod
from plimsoll.scheduling.fits import fits
from plimsoll.scheduling.model import EXISTING, Constraint
from tests.realcluster import StartControlPlane
from tests.scheduling import menus
from tests.scheduling.cases import Case, plan_of
from tests.scheduling.checker import Situation
from tests.scheduling.random_objects import RandomObjects
from tests.scheduling.real import Outcome, RealScheduler, scheduler_arguments
from tests.scheduling.rules import untolerated_taints
from tests.scheduling.strategies import GATED
from tests.scheduling.words import ENGINE, rules_in


@pytest.fixture
def real(new_control_plane: StartControlPlane, tmp_path: Path) -> RealScheduler:
    place = tmp_path / "cluster"
    return RealScheduler(new_control_plane(directory=place, extra_args={"scheduler": scheduler_arguments(place)}))


def populated(real: RealScheduler, generated: RandomObjects, *, nodes: int, bound: int) -> Case:
    """A cluster with pods that were bound without the scheduler, like static pods."""
    at_hand = tuple(generated.node(f"node-{number}") for number in range(nodes))
    real.add_nodes(at_hand)
    real.wait_until_the_scheduler_knows_them()
    there = []
    for number in range(bound):
        manifest, place = generated.pod(f"bound-{number}"), generated.random.choice(at_hand)
        if not untolerated_taints(convert(manifest, Pod), place):  # those that cannot stay would be evicted
            bind = generated.random.choice((real.bind, real.bind, real.bind_terminating, real.bind_finished))
            there.append(bind(manifest, place.name))
    return Case(nodes=at_hand, bound=tuple(there))


def as_pod(real: RealScheduler, manifest: dict[str, Any]) -> Pod:
    """As the operator would see it, with a UID that is the same in every run."""
    stored = real.as_stored(manifest)
    identity = {**stored["metadata"], "uid": f"uid-{manifest['metadata']['name']}"}
    return convert({**stored, "metadata": identity}, Pod)


def choose_target(generated: RandomObjects, expected: dict[str, list[str]]) -> str:
    """A node that would have the pod, or one that a single rule forbids: the answers that are easiest to get wrong."""
    open_to_it = [name for name, rules in expected.items() if not rules]
    nearly = [name for name, rules in expected.items() if len(rules) == 1]
    first, second = (open_to_it, nearly) if generated.random.random() < 0.5 else (nearly, open_to_it)
    return generated.random.choice(first or second or list(expected))


def check_one_by_one(real: RealScheduler, generated: RandomObjects, case: Case, count: int) -> None:
    snapshot, now = case.snapshot(), case.situation()
    for number in range(count):
        manifest = generated.pod(f"pod-{number}")
        pod = as_pod(real, manifest)
        expected = {name: now.ask(pod).refusals(node) for name, node in now.nodes.items()}
        target = choose_target(generated, expected)
        ours = fits(snapshot, pod, target)
        outcome = real.try_on(manifest, target)
        asked = f"{manifest} on {target}: ours {ours or 'yes'}, the checker's {expected[target] or 'yes'}, {outcome}"
        assert (outcome.node_name == target) == (ours is None) == (not expected[target]), asked
        if outcome.node_name:
            assert not expected[outcome.node_name], asked
            assert fits(snapshot, pod, outcome.node_name) is None, asked
            now.place(pod, outcome.node_name)
            snapshot.add(pod, outcome.node_name)
        else:
            check_words(outcome, expected)
            answers = [fits(snapshot, pod, name) for name in now.nodes]
            assert all(answer is not None for answer in answers), asked
            assert rules_in(outcome.message) & {r for a in answers if a for r in ENGINE[a.rule]}, asked


def check_words(outcome: Outcome, expected: dict[str, list[str]]) -> None:
    """Each rule that kube-scheduler speaks of forbids some node."""
    spoken = rules_in(outcome.message)
    assert spoken, outcome.message
    assert spoken <= {rule for rules in expected.values() for rule in rules}, outcome.message


def check_a_gated_pod(real: RealScheduler) -> None:
    generated = RandomObjects(5)
    case = populated(real, generated, nodes=1, bound=0)
    manifest = menus.merge(menus.SIZES[0], GATED, {"metadata": {"name": "gated", "namespace": "blue"}})
    outcome = real.try_on(manifest, "node-0")
    refusal = fits(case.snapshot(), as_pod(real, manifest), "node-0")
    assert outcome.message.startswith("SchedulingGated")
    assert refusal is not None and refusal.rule is Constraint.GATED
    real.clear()


def follow(real: RealScheduler, generated: RandomObjects, case: Case, count: int) -> tuple[int, int]:
    """Submit what we place, in our order and with our node preferred; then what we call impossible."""
    manifests = {f"uid-pod-{number}": generated.pod(f"pod-{number}") for number in range(count)}
    case = Case(nodes=case.nodes, bound=case.bound, pending=tuple(as_pod(real, m) for m in manifests.values()))
    plan = plan_of(case)
    now: Situation = plan.before
    for pod, node_name in plan.placements:
        outcome = real.try_on(manifests[pod.uid], node_name)
        assert outcome.node_name == node_name, f"{manifests[pod.uid]} on {node_name}: {outcome}"
        now.place(pod, node_name)
    for pod in plan.unplaced:
        outcome = real.try_on(manifests[pod.uid], generated.random.choice(list(now.nodes)))
        reason = plan.packing.unplaced[pod.uid][EXISTING]
        assert not outcome.node_name, f"{manifests[pod.uid]} is bound to {outcome.node_name}, ours: {reason}"
        check_words(outcome, {name: now.ask(pod).refusals(node) for name, node in now.nodes.items()})
    return len(plan.placements), len(plan.unplaced)


def test_fits_says_what_it_does_what_we_place_it_accepts_and_what_we_refuse_it_leaves_pending(
    real: RealScheduler,
) -> None:
    """On one cluster: it takes longer to start than to answer a hundred questions. More seeds are soaked."""
    check_a_gated_pod(real)
    for seed in range(3):
        generated = RandomObjects(1000 + seed)
        check_one_by_one(real, generated, populated(real, generated, nodes=12, bound=6), 60)
        real.clear()
    placed = refused = 0
    for seed in range(3):
        generated = RandomObjects(2000 + seed)
        ours = follow(real, generated, populated(real, generated, nodes=12, bound=4), 70)
        placed, refused = placed + ours[0], refused + ours[1]
        real.clear()
    assert placed > 110 and refused > 60, "the generated pods no longer tell much"


@pytest.mark.soak
def test_thousands_of_pods(real: RealScheduler) -> None:
    for seed in range(40):
        generated = RandomObjects(50_000 + seed)
        check_one_by_one(real, generated, populated(real, generated, nodes=12, bound=6), 60)
        real.clear()
        follow(real, generated, populated(real, generated, nodes=12, bound=4), 70)
        real.clear()
