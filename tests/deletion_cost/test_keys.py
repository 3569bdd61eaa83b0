"""Which Deployments a change of an object concerns."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from plimsoll.controllers.deletion_cost.spec import ENABLED
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import DEPLOYMENTS, NODES, PODS, REPLICASETS, Key, Resource
from tests import build
from tests.deletion_cost.scene import TOP, Scene, our_value

WEB = Key("Deployment", "default", "web")


def keys(scene: Scene, resource: Resource[Any], changed: KubeObject) -> set[Key]:
    return set(scene.controller.keys(resource, changed, scene.view))


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    scene.add("one", "a")
    return scene


def test_everything_along_the_chain_leads_to_the_deployment(scene: Scene) -> None:
    assert keys(scene, DEPLOYMENTS, scene.deployment) == {WEB}
    assert keys(scene, REPLICASETS, scene.replica_sets["web-1"]) == {WEB}
    assert keys(scene, PODS, scene.pods["one"]) == {WEB}
    assert keys(scene, NODES, scene.nodes["node-a"]) == {WEB}


def test_a_deployment_that_says_nothing_costs_nothing() -> None:
    scene = Scene({})
    scene.add("one", "a")
    assert keys(scene, DEPLOYMENTS, scene.deployment) == set()
    assert keys(scene, PODS, scene.pods["one"]) == set()
    assert keys(scene, NODES, scene.nodes["node-a"]) == set()


def test_a_deployment_switched_off_while_nobody_looked_is_found_by_the_marks_it_left() -> None:
    scene = Scene({})
    scene.add("one", "a", annotations=our_value(TOP))
    assert keys(scene, PODS, scene.pods["one"]) == {WEB}


def test_the_state_before_a_change_leads_there_too(scene: Scene) -> None:
    """The annotation is gone after the change; the state before it still names the key."""
    before = scene.deployment
    scene.annotate(enabled=None)
    assert keys(scene, DEPLOYMENTS, before) == {WEB}


def test_a_pod_seen_before_its_replica_set_is_found_when_that_comes(scene: Scene) -> None:
    without = View.of({DEPLOYMENTS: [scene.deployment], REPLICASETS: [], PODS: scene.pods.values(), NODES: []})
    assert set(scene.controller.keys(PODS, scene.pods["one"], without)) == set()
    assert keys(scene, REPLICASETS, scene.replica_sets["web-1"]) == {WEB}


def test_owners_are_known_by_uid_not_by_name(scene: Scene) -> None:
    namesake = replace(scene.replica_sets["web-1"], metadata=replace(scene.replica_sets["web-1"].metadata, uid="other"))
    scene.replica_sets["web-1"] = namesake
    assert keys(scene, PODS, scene.pods["one"]) == set()
    scene.deployment = replace(scene.deployment, metadata=replace(scene.deployment.metadata, uid="other"))
    assert keys(scene, REPLICASETS, namesake) == set()


def test_pods_of_other_owners_concern_nobody(scene: Scene) -> None:
    assert keys(scene, PODS, build.pod("lone")) == set()
    assert keys(scene, PODS, build.pod("db-0", owner=build.stateful_set())) == set()
    assert keys(scene, REPLICASETS, build.replica_set("bare")) == set()


def test_an_invalid_switch_still_leads_to_the_deployment() -> None:
    scene = Scene({ENABLED: "yes"})
    assert keys(scene, DEPLOYMENTS, scene.deployment) == {WEB}
