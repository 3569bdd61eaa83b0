"""What is written into the pod: its own rules stay, the class is ANDed into each of them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from plimsoll.controllers.placement.admission.classify import ClassAssigned, NotAssigned
from plimsoll.controllers.placement.admission.patch import Operation
from plimsoll.controllers.placement.capacity_class import DEFAULT_RULES
from plimsoll.kube.codec import builtins, convert
from plimsoll.kube.types.meta import Requirement
from plimsoll.kube.types.selectors import requirement_holds
from tests import build
from tests.placement.admission_scene import SPOT_LABEL, Scene, review, workload

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
AZURE = "kubernetes.azure.com/scalesetpriority"


def applied(pod: dict[str, Any], patch: list[Operation]) -> dict[str, Any]:
    """A JSON patch of additions, carried out by the letter of RFC 6902."""
    result = copy.deepcopy(pod)
    for operation in patch:
        assert operation["op"] == "add"
        *path, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        place: Any = result
        for part in path:
            place = place[part]
        if isinstance(place, list):
            assert last == "-"
            place.append(operation["value"])
        else:
            place[last] = operation["value"]
    return result


def admitted(percentage: str, spec: dict[str, Any], *, nodes: tuple[Any, ...] = ()) -> dict[str, Any]:
    deployment, replica_set = workload(1, percentage)
    scene = Scene(deployment, replica_set, nodes=nodes)
    request = review(replica_set, spec=spec)
    answer = scene.ask(request)
    assert isinstance(answer, ClassAssigned)
    assert request.object is not None
    whole = {"metadata": builtins(request.object.metadata), "spec": spec}
    return applied(whole, answer.patch)


def runs_on(pod: dict[str, Any], labels: dict[str, str]) -> bool:
    terms = pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    return any(
        all(requirement_holds(convert(e, Requirement), labels) for e in term["matchExpressions"]) for term in terms
    )


def in_zones(*zones: str) -> list[dict[str, Any]]:
    return [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]} for zone in zones]


OWN = {
    "nothing of its own": ({}, {}),
    "an affinity for other things": ({"affinity": {"podAffinity": {}}}, {}),
    "a preference": (
        {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}},
        {},
    ),
    "one term": ({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": in_zones("a")}}}}, {"zone": "a"}),
    "two terms": ({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": in_zones("b", "a")}}}}, {"zone": "a"}),
    "an empty term beside": (
        {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}, *in_zones("a")]}}}},
        {"zone": "a"},
    ),
}


@pytest.mark.parametrize(("spec", "own"), OWN.values(), ids=OWN)
def test_spot_runs_where_the_pod_would_run_and_the_node_is_spot(spec, own):
    pod = admitted("100%", spec)
    assert runs_on(pod, {**own, **SPOT_LABEL})
    assert not runs_on(pod, own)
    if own:
        assert not runs_on(pod, {"zone": "c", **SPOT_LABEL})
        assert not runs_on(pod, SPOT_LABEL)


@pytest.mark.parametrize(("spec", "own"), OWN.values(), ids=OWN)
def test_on_demand_runs_where_no_rule_says_spot_and_on_unlabelled_nodes(spec, own):
    pod = admitted("0%", spec, nodes=(build.node("s", labels=SPOT_LABEL),))
    assert runs_on(pod, own)
    for rule in DEFAULT_RULES:
        assert not runs_on(pod, {**own, rule.label: rule.spot[0]}), rule
    if own:
        assert not runs_on(pod, {"zone": "c"})


def test_spot_asks_by_the_rules_that_this_cluster_follows():
    pod = admitted("100%", {}, nodes=(build.node("s", labels=SPOT_LABEL),))
    (term,) = pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert [e["key"] for e in term["matchExpressions"]] == ["karpenter.sh/capacity-type"]


def test_what_else_was_there_stays():
    preferred = [{"weight": 1, "preference": in_zones("a")[0]}]
    spec = {
        "affinity": {
            "podAntiAffinity": {"x": 1},
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred},
        }
    }
    pod = admitted("100%", spec)
    assert pod["spec"]["affinity"]["podAntiAffinity"] == {"x": 1}
    assert pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] == preferred


@pytest.mark.parametrize("terms", [[{}], []])
def test_a_pod_that_matches_no_node_goes_on_doing_so(terms):
    deployment, replica_set = workload()
    spec = {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}
    assert Scene(deployment, replica_set).ask(review(replica_set, spec=spec)) == NotAssigned("MatchesNoNode")


@pytest.mark.parametrize("held", [[], [{"key": "own", "operator": "Exists"}]])
def test_spot_tolerates_the_taint_of_its_rule(held):
    azure = build.node("s", labels={AZURE: "spot"})
    pod = admitted("100%", {"tolerations": held} if held else {}, nodes=(azure,))
    mine = [t for t in pod["spec"]["tolerations"] if t["key"] == AZURE]
    assert [(t["value"], t["effect"], t.get("operator", "Equal")) for t in mine] == [("spot", "NoSchedule", "Equal")]
    assert [t for t in pod["spec"]["tolerations"] if t["key"] != AZURE] == held
    assert AZURE not in str(admitted("0%", {}, nodes=(azure,))["spec"].get("tolerations"))


@pytest.mark.parametrize("own", [{}, {"team": "a"}])
def test_the_pod_carries_class_reason_and_token(own):
    deployment, replica_set = workload(1, "100%")
    request = review(replica_set, annotations=own)
    answer = Scene(deployment, replica_set).ask(request)
    assert isinstance(answer, ClassAssigned)
    assert request.object is not None
    pod = applied({"metadata": builtins(request.object.metadata), "spec": {}}, answer.patch)
    assert pod["metadata"]["annotations"] == own | {
        "plimsoll.dev/placement-class": "spot",
        "plimsoll.dev/placement-reason": "share",
        "plimsoll.dev/placed-by": "plimsoll-system",
        "plimsoll.dev/placement-token": answer.assignment.token,
    }


@pytest.mark.parametrize("percentage", ["0%", "100%"])
@pytest.mark.parametrize(("spec", "own"), OWN.values(), ids=OWN)
def test_asked_again_about_what_it_has_patched_it_changes_nothing(spec, own, percentage):
    deployment, replica_set = workload(1, percentage)
    scene = Scene(deployment, replica_set, nodes=(build.node("s", labels={AZURE: "spot"}),))
    first = review(replica_set, spec=spec)
    answer = scene.ask(first)
    assert isinstance(answer, ClassAssigned)
    assert first.object is not None
    pod = applied({"metadata": builtins(first.object.metadata), "spec": spec}, answer.patch)
    again = scene.ask(review(replica_set, spec=pod["spec"], annotations=pod["metadata"]["annotations"]))
    assert isinstance(again, ClassAssigned)
    assert again.patch == []


def test_asked_again_after_another_took_the_affinity_away_it_is_put_back():
    deployment, replica_set = workload(1, "100%")
    scene = Scene(deployment, replica_set)
    answer = scene.ask(review(replica_set))
    assert isinstance(answer, ClassAssigned)
    assignment = {"plimsoll.dev/placement-token": answer.assignment.token}
    again = scene.ask(review(replica_set, annotations=assignment, spec={"affinity": {}}))
    assert isinstance(again, ClassAssigned)
    assert any(operation["path"].startswith("/spec/affinity") for operation in again.patch)
