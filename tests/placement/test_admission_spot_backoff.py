"""Spot ran short for a workload: its new pods get on-demand, and later one at a time tries spot again."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from plimsoll.controllers.placement.admission.classify import ClassAssigned, PodClassifier
from plimsoll.controllers.placement.annotations import PlacementReason
from plimsoll.controllers.placement.spot_backoff import SpotBackoff, backoff_shard
from plimsoll.controllers.placement.workload import key_of
from plimsoll.kube.cache.store import Store, View
from plimsoll.kube.codec import convert
from plimsoll.kube.types.apps import Deployment, StatefulSet
from plimsoll.kube.types.core import ConfigMap
from tests import build
from tests.placement.admission_scene import ON_DEMAND, SPOT, Scene, asking, review, workload


def back_off(scene: Scene, of: Deployment | StatefulSet, *, until: timedelta) -> None:
    """Spot ran short ten minutes ago; the pause ends in `until`."""
    record = SpotBackoff(key_of(of), build.START - timedelta(minutes=10), build.START + until)
    memory = scene.settings.memory
    store: Store[ConfigMap] = Store(memory)
    body = {
        "metadata": {"namespace": scene.settings.namespace, "name": backoff_shard(of.uid)},
        "data": {of.uid: msgspec.json.encode(record).decode()},
    }
    store.put(convert(body, ConfigMap))
    scene.view = View({**scene.view._stores, memory: store})
    scene.admission = PodClassifier(scene.view, scene.settings)


def test_on_demand_while_the_pause_lasts():
    deployment, replica_set = workload(4, "100%")
    scene = Scene(deployment, replica_set)
    back_off(scene, deployment, until=timedelta(minutes=1))
    assignment = [scene.admit(replica_set).assignment for _ in range(4)]
    assert [(m.capacity_class, m.why) for m in assignment] == [(ON_DEMAND, PlacementReason.HELD_BACK)] * 4


def test_afterwards_one_is_sent_and_the_others_wait_for_what_becomes_of_it():
    deployment, replica_set = workload(4, "100%")
    scene = Scene(deployment, replica_set)
    back_off(scene, deployment, until=timedelta(minutes=-1))
    first = scene.admit(replica_set)
    assert first.assignment.capacity_class is SPOT
    assert scene.admit(replica_set).assignment.why is PlacementReason.HELD_BACK
    scene.appear(replica_set, first)
    assert scene.admit(replica_set).assignment.why is PlacementReason.HELD_BACK


def test_a_stateful_set_holds_back_too():
    stateful_set = build.stateful_set(annotations=asking("100%"))
    scene = Scene(stateful_set)
    back_off(scene, stateful_set, until=timedelta(minutes=1))
    answer = scene.ask(review(stateful_set, name="db-0"))
    assert isinstance(answer, ClassAssigned)
    assert (answer.assignment.capacity_class, answer.assignment.why) == (ON_DEMAND, PlacementReason.HELD_BACK)
