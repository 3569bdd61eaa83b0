"""A snapshot that followed changes, or was changed and taken back, answers as one that is built anew."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.kube.types.core import Namespace, Node, Pod
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.storage import PersistentVolume, PersistentVolumeClaim
from plimsoll.scheduling.fits import fits
from plimsoll.scheduling.model import Template, Unschedulable
from plimsoll.scheduling.pack import pack
from plimsoll.scheduling.removal import removable
from plimsoll.scheduling.snapshot import CacheChange, Snapshot
from tests.scheduling import menus
from tests.scheduling.cases import Case, node, pod
from tests.scheduling.strategies import bound_pods, campaign, clusters, examples, nodes

Identity = tuple[type[KubeObject], str, str]


def identity(obj: KubeObject) -> Identity:
    return (type(obj), obj.namespace, obj.name)


class World:
    """What the API server holds, and a snapshot that only ever hears of changes."""

    def __init__(self, case: Case) -> None:
        self.objects: dict[Identity, KubeObject] = {}
        for obj in (*case.nodes, *case.bound, *case.namespaces, *case.claims, *case.volumes):
            self.objects[identity(obj)] = obj
        self.snapshot = case.snapshot()

    def of(self, kind: type[Any]) -> list[Any]:
        return [obj for (its_kind, _, _), obj in self.objects.items() if its_kind is kind]

    def change(self, before: KubeObject | None, after: KubeObject | None) -> None:
        if before is not None and after is None:
            del self.objects[identity(before)]
        if after is not None:
            self.objects[identity(after)] = after
        self.snapshot.apply([CacheChange(before, after)])

    def built_anew(self) -> Snapshot:
        """With its nodes in the same order: of two that are equally good, the first is taken."""
        return Snapshot.build(
            sorted(self.of(Node), key=lambda node: self.snapshot.rows[node.name]),
            self.of(Pod),
            namespaces=self.of(Namespace),
            claims=self.of(PersistentVolumeClaim),
            volumes=self.of(PersistentVolume),
        )


def answers(
    snapshot: Snapshot, node_names: list[str], pending: tuple[Pod, ...], templates: tuple[Template, ...]
) -> Any:
    """Everything that can be asked."""
    fit: Mapping[tuple[str, str], Unschedulable | None] = {
        (pod.uid, name): fits(snapshot, pod, name) for pod in pending for name in node_names
    }
    packing = pack(snapshot, pending, templates)
    return fit, packing, removable(snapshot, sorted(node_names))


def relabelled(obj: Any, **labels: str) -> Any:
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, labels={**obj.labels, **labels}))


def bound_to(pod: Pod, node_name: str) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node_name))


def terminating(pod: Pod) -> Pod:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, deletion_timestamp=moment))


_spare_nodes = nodes(max_size=3)
_steps = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1000)), min_size=1, max_size=8)


def play(world: World, case: Case, spare: tuple[Node, ...], spare_pods: tuple[Pod, ...], steps: Any) -> None:
    """A history: pods come, move on, end and go; nodes come, change and go; labels of namespaces and volumes change."""
    for action, number in steps:
        pods, at_hand = world.of(Pod), world.of(Node)
        pod = pods[number % len(pods)] if pods else None
        node = at_hand[number % len(at_hand)] if at_hand else None
        if action == 0 and spare_pods:
            new = spare_pods[number % len(spare_pods)]
            world.change(world.objects.get(identity(new)), new)
        elif action == 1 and pod is not None:
            world.change(pod, None)
        elif action == 2 and pod is not None:
            world.change(pod, relabelled(pod, app="a", tier="x"))
        elif action == 3 and pod is not None:
            world.change(pod, terminating(pod))
        elif action == 4 and pod is not None:
            status = msgspec.structs.replace(pod.status, phase="Succeeded")
            world.change(pod, msgspec.structs.replace(pod, status=status))
        elif action == 5 and node is not None:
            world.change(node, None)  # its pods are still there for a while, and count again if it comes back
        elif action == 6 and spare:
            new_node = spare[number % len(spare)]
            world.change(world.objects.get(identity(new_node)), new_node)
        elif action == 7 and node is not None:
            world.change(node, relabelled(node, disk="ssd"))
        elif action == 8:
            namespace = world.of(Namespace)[number % 2]
            world.change(namespace, relabelled(namespace, team="blue"))
        elif action == 9:
            volume = world.of(PersistentVolume)[number % len(case.volumes)]
            world.change(volume, relabelled(volume, **{"topology.kubernetes.io/zone": "z3"}))


def check_history(case: Case, spare: tuple[Node, ...], spare_pods: tuple[Pod, ...], steps: Any) -> None:
    world = World(case)
    play(world, case, spare, spare_pods, steps)
    names = sorted(node.name for node in world.of(Node))
    followed = answers(world.snapshot, names, case.pending, case.templates)
    assert followed == answers(world.built_anew(), names, case.pending, case.templates)


# Of the same names as those of the case, so that they replace them or bring them back; pods with UIDs of their own.
_spare_pods = bound_pods(["node-0", "node-1", "node-2"], max_size=4, born="later")


@examples(50)
@given(clusters(max_nodes=3, max_pending=3), _spare_nodes, _spare_pods, _steps)
def test_following_changes(case: Case, spare: tuple[Node, ...], spare_pods: tuple[Pod, ...], steps: Any) -> None:
    check_history(case, spare, spare_pods, steps)


@pytest.mark.soak
@campaign(10_000)
@given(clusters(max_nodes=3, max_pending=3), _spare_nodes, _spare_pods, _steps)
def test_following_many_more(case: Case, spare: tuple[Node, ...], spare_pods: tuple[Pod, ...], steps: Any) -> None:
    check_history(case, spare, spare_pods, steps)


def test_which_pods_were_met_first_does_not_decide_who_gets_the_last_place() -> None:
    """One host port, two pods that ask for it: the first of the question has it, though pods like the second were there earlier."""
    port = menus.HOST_PORTS[0]
    case = Case(
        nodes=(node("n"),),
        bound=(pod("second", port, namespace="green", node="n"),),
        pending=(pod("a", port, namespace="blue"), pod("b", port, namespace="green")),
    )
    world = World(case)
    world.change(case.bound[0], None)
    assert [*pack(world.snapshot, case.pending).placements] == ["uid-a"]
    assert [*pack(world.built_anew(), case.pending).placements] == ["uid-a"]


@examples(40)
@given(clusters(max_nodes=3, max_pending=4), st.lists(st.integers(0, 1000), max_size=6))
def test_a_trial_is_taken_back(case: Case, numbers: list[int]) -> None:
    names = [node.name for node in case.nodes]
    snapshot = case.snapshot()
    before = answers(snapshot, names, case.pending, case.templates)
    standing = {pod.uid: pod for pod in case.bound if not pod.finished}
    with snapshot.trial() as tried:
        for number in numbers:
            if number % 2 and standing:
                uid = sorted(standing)[number % len(standing)]
                tried.remove(uid)
                del standing[uid]
            elif names:
                new = case.pending[number % len(case.pending)]
                if new.uid not in standing:
                    name = names[number % len(names)]
                    tried.add(new, name)
                    standing[new.uid] = bound_to(new, name)
        inside = answers(tried, names, case.pending[:1], ())
        changed = Case(nodes=case.nodes, bound=tuple(standing.values())).snapshot()
        assert inside == answers(changed, names, case.pending[:1], ())
    assert answers(snapshot, names, case.pending, case.templates) == before


class FailureError(Exception):
    pass


def fail_in_a_trial(snapshot: Snapshot, pod: Pod, node_names: list[str]) -> None:
    with snapshot.trial() as tried:
        for name in node_names[:1]:
            tried.add(pod, name)
        raise FailureError


@examples(30)
@given(clusters(max_nodes=3, max_pending=4))
def test_a_trial_that_fails_is_taken_back(case: Case) -> None:
    names = [node.name for node in case.nodes]
    snapshot = case.snapshot()
    before = answers(snapshot, names, case.pending, case.templates)
    with pytest.raises(FailureError):
        fail_in_a_trial(snapshot, case.pending[0], names)
    assert answers(snapshot, names, case.pending, case.templates) == before
