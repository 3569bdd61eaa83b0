"""What may be written on a Deployment, and what happens if it makes no sense."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from plimsoll.controllers.deletion_cost.spec import (
    ENABLED,
    PREFIX,
    SPREAD_BY,
    TYPE,
    InvalidSettingsError,
    WorkloadSettings,
    is_label_key,
    read_settings,
)
from plimsoll.kube.types.resources import Key
from tests.deletion_cost.scene import TOP, Scene, our_value

KINDS = ("zone", "by-age")


def test_nothing_written_means_off() -> None:
    assert read_settings({}, KINDS) == WorkloadSettings(enabled=False)


def test_enabled_alone_means_zone_by_the_well_known_label() -> None:
    expected = WorkloadSettings(enabled=True, type="zone", spread_by="topology.kubernetes.io/zone")
    assert read_settings({ENABLED: "true"}, KINDS) == expected


def test_type_and_label_are_taken_from_the_annotations() -> None:
    annotations = {ENABLED: "true", TYPE: "by-age", SPREAD_BY: "topology.kubernetes.io/rack"}
    assert read_settings(annotations, KINDS) == WorkloadSettings(
        enabled=True, type="by-age", spread_by="topology.kubernetes.io/rack"
    )


def test_the_names_are_those_of_the_specification() -> None:
    assert PREFIX == "pod-deletion-cost.lablabs.io/"
    assert (ENABLED, SPREAD_BY, TYPE) == (PREFIX + "enabled", PREFIX + "spread-by", PREFIX + "type")


def test_what_is_switched_off_may_say_anything() -> None:
    assert not read_settings({ENABLED: "false", TYPE: "nonsense", SPREAD_BY: "!"}, KINDS).enabled


@pytest.mark.parametrize("text", ["True", "yes", "1", "", " true"])
def test_enabled_is_true_or_false_to_the_letter(text: str) -> None:
    with pytest.raises(InvalidSettingsError, match="enabled"):
        read_settings({ENABLED: text}, KINDS)


def test_every_reason_is_given_not_only_the_first() -> None:
    with pytest.raises(InvalidSettingsError) as caught:
        read_settings({ENABLED: "on", TYPE: "zones", SPREAD_BY: "not a label"}, KINDS)
    assert len(caught.value.reasons) == 3


@pytest.mark.parametrize("key", ["zone", "topology.kubernetes.io/zone", "a.b-c/D_e.f", "x" * 63, "a" * 253 + "/b"])
def test_label_keys(key: str) -> None:
    assert is_label_key(key)


@pytest.mark.parametrize(
    "key",
    ["", "/zone", "a/", "a/b/c", "-a", "a-", "ä", "x" * 64, "Upper.io/zone", "a" * 254 + "/b", "two words", "a\n"],
)
def test_what_is_no_label_key(key: str) -> None:
    assert not is_label_key(key)


@pytest.mark.parametrize(
    ("annotations", "named"),
    [
        ({ENABLED: "maybe"}, '"maybe"'),
        ({ENABLED: "true", TYPE: "zoen"}, '"zoen"'),
        ({ENABLED: "true", SPREAD_BY: "a/b/c"}, '"a/b/c"'),
    ],
)
def test_invalid_input_is_one_problem_that_lists_the_types_and_writes_nothing(
    annotations: dict[str, str], named: str
) -> None:
    scene = Scene(annotations)
    scene.add("fresh", "a")
    scene.add("covered", "a", annotations=our_value(TOP - 5))
    decision = scene.decide()
    assert decision.actions == ()
    (problem,) = decision.problems
    assert named in problem.message
    assert "Available types: zone" in problem.message
    assert "default/web" in problem.message
    assert problem.regarding.uid == scene.deployment.uid


def test_a_problem_is_the_same_at_every_look_so_it_is_told_once() -> None:
    scene = Scene({ENABLED: "true", TYPE: "zoen"})
    scene.add("one", "a")
    first = scene.decide()
    scene.add("another", "b")
    scene.deployment = replace(scene.deployment, metadata=replace(scene.deployment.metadata, resource_version="9999"))
    assert scene.decide().problems == first.problems


def test_a_deployment_that_is_gone_needs_nothing() -> None:
    scene = Scene()
    scene.add("one", "a")
    decision = scene.controller.decide(Key("Deployment", "default", "other"), scene.view, scene.now)
    assert decision.reason.code == "Gone"
    assert decision.actions == ()


def test_a_deployment_that_is_leaving_needs_nothing() -> None:
    scene = Scene()
    scene.add("one", "a")
    meta = replace(scene.deployment.metadata, deletion_timestamp=scene.now)
    scene.deployment = replace(scene.deployment, metadata=meta)
    decision = scene.decide()
    assert decision.reason.code == "Gone"
    assert decision.actions == ()
