"""Two installations in one cluster: neither has an object that is the other's, and one goes without the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chart.installed import Refused, helm_on, installation
from tests.chart.test_chart_equals_manifests import CHART, SAME, comparable, printed
from tools.controlplane.cluster import ControlPlane

pytestmark = pytest.mark.process

EVERYTHING = (
    "config.controllers.enabled={placement,deletion-cost,allocation,nodegroups}",
    "config.providers.enabled={kwok,vpsie}",
    "config.dashboard.access=token",
)
AS_APPLIED = ("--server-side", "--force-conflicts")


@pytest.fixture
def homes(control_plane: ControlPlane) -> Iterator[tuple[str, str]]:
    names = control_plane.add_namespace("first"), control_plane.add_namespace("second")
    yield names
    for name in names:
        control_plane.remove_namespace(name)


@pytest.mark.parametrize(("_config", "arguments"), [case[1:] for case in SAME], ids=[case[0] for case in SAME])
def test_no_two_objects_share_a_name(_config: dict[str, Any], arguments: list[str]):
    first, second = (comparable(printed("--namespace", home, *arguments)) for home in ("first", "second"))
    assert not first.keys() & second.keys()
    for binding in (one for one in second.values() if one["kind"].endswith("Binding")):
        role = (binding["roleRef"]["kind"], binding["metadata"].get("namespace", ""), binding["roleRef"]["name"])
        assert role in second
        assert [subject["namespace"] for subject in binding["subjects"]] == ["second"]


def _installed(control_plane: ControlPlane) -> set[str]:
    """Objects of any installation that are removed with it, as kind, namespace and name."""
    kinds = "clusterroles,clusterrolebindings,priorityclasses,mutatingwebhookconfigurations,roles,rolebindings"
    named = 'jsonpath={range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name}{"\\n"}{end}'
    return set(control_plane.kubectl("get", kinds, "-A", "-o", named, "-l", "app.kubernetes.io/name=plimsoll").split())


def test_side_by_side(helm: Path, control_plane: ControlPlane, homes: tuple[str, str], namespace: str):
    control_plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": "weka-operator-system"}})
    earlier = _installed(control_plane)  # of other tests, whose namespaces are still being deleted
    try:
        first, second = homes
        watched = f"config.operator.watchNamespaces={{{namespace}}}"
        with installation(helm, control_plane, first, *EVERYTHING, watched):
            with installation(helm, control_plane, second, *EVERYTHING, watched) as applied:
                helm_on(helm, control_plane, "uninstall", "plimsoll", "--namespace", first)
                # What the second one applied is all there still, as it was applied.
                assert control_plane.kubectl("diff", *AS_APPLIED, "-f", "-", stdin=applied) == ""
            assert _installed(control_plane) <= earlier, "what an installation brings along goes with it"
    finally:
        control_plane.remove_namespace("weka-operator-system")


def test_a_second_one_in_the_same_namespace_is_refused_by_name(helm: Path, control_plane: ControlPlane, homes: Any):
    (home, _) = homes
    with installation(helm, control_plane, home, "config.webhook.mode=off") as applied:
        with pytest.raises(Refused, match=r"exists and cannot be imported .* current value is \"plimsoll\""):
            helm_on(helm, control_plane, "install", "another", str(CHART), "--namespace", home)
        assert control_plane.kubectl("diff", *AS_APPLIED, "-f", "-", stdin=applied) == ""
