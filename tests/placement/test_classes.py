"""Which nodes are spot, and what a pod asks for to get one class or the other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.controllers.placement.capacity_class import DEFAULT_RULES, ClassRules, RulesInUse, with_class
from plimsoll.controllers.placement.target import CapacityClass
from plimsoll.kube.codec import convert
from plimsoll.kube.types.core import NodeSelectorTerm, PodSpec
from plimsoll.kube.types.selectors import requirement_holds
from tests import build

RULES = ClassRules()
SPOT, ON_DEMAND = CapacityClass.SPOT, CapacityClass.ON_DEMAND


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"karpenter.sh/capacity-type": "spot"}, SPOT),
        ({"karpenter.sh/capacity-type": "on-demand"}, ON_DEMAND),
        ({"karpenter.sh/capacity-type": "reserved"}, ON_DEMAND),
        ({"eks.amazonaws.com/capacityType": "SPOT"}, SPOT),
        ({"eks.amazonaws.com/capacityType": "CAPACITY_BLOCK"}, ON_DEMAND),
        ({"cloud.google.com/gke-spot": "true"}, SPOT),
        ({"cloud.google.com/gke-preemptible": "true"}, SPOT),
        ({"kubernetes.azure.com/scalesetpriority": "spot"}, SPOT),
        ({"kubernetes.azure.com/scalesetpriority": "regular"}, ON_DEMAND),
        ({"spotinst.io/node-lifecycle": "od"}, ON_DEMAND),
        ({}, ON_DEMAND),
        ({"karpenter.sh/capacity-type": "on-demand", "spotinst.io/node-lifecycle": "spot"}, SPOT),  # any rule
    ],
)
def test_the_class_of_a_node(labels: dict[str, str], expected: CapacityClass):
    assert RULES.of_labels(labels) is expected


labels_of_nodes = st.dictionaries(
    st.sampled_from([rule.label for rule in DEFAULT_RULES]),
    st.sampled_from(sorted({value for rule in DEFAULT_RULES for value in (*rule.spot, *rule.on_demand, "other")})),
)


@given(labels_of_nodes, st.sampled_from(CapacityClass))
def test_what_a_pod_asks_for_is_met_by_exactly_the_nodes_of_its_class(labels: dict[str, str], wanted: CapacityClass):
    met = any(all(requirement_holds(r, labels) for r in together) for together in RULES.requirements(wanted))
    assert met is (RULES.of_labels(labels) is wanted)


def test_only_rules_that_the_cluster_follows_are_asked_for():
    labelled, plain, in_use = (
        build.node("n1", labels={"karpenter.sh/capacity-type": "spot"}),
        build.node("n2"),
        RulesInUse(RULES),
    )
    in_use.node_changed(None, plain)
    assert in_use.current == RULES
    in_use.node_changed(None, labelled)
    assert [rule.label for rule in in_use.current.rules] == ["karpenter.sh/capacity-type"]
    in_use.node_changed(labelled, build.node("n1"))
    assert in_use.current == RULES


def test_rules_are_not_narrowed_before_a_spot_node_was_seen():
    """With on-demand nodes of an EKS managed group alone, a spot pod must not ask for that group's label only."""
    on_demand = build.node("n1", labels={"eks.amazonaws.com/capacityType": "ON_DEMAND"})
    spot = build.node("n2", labels={"karpenter.sh/capacity-type": "spot"})
    in_use = RulesInUse(RULES)
    in_use.node_changed(None, on_demand)
    assert in_use.current == RULES == RULES.in_use([on_demand.labels])
    in_use.node_changed(None, spot)
    both = ["karpenter.sh/capacity-type", "eks.amazonaws.com/capacityType"]
    assert [rule.label for rule in in_use.current.rules] == both
    assert in_use.current == RULES.in_use([on_demand.labels, spot.labels])
    in_use.node_changed(spot, None)
    assert in_use.current == RULES


KARPENTER, GKE = "karpenter.sh/capacity-type", "cloud.google.com/gke-spot"


@pytest.mark.parametrize(
    ("terms", "label"),
    [
        ([[(KARPENTER, "In", ["spot", "on-demand"])]], None),
        ([[(KARPENTER, "Exists", [])]], None),
        ([[(KARPENTER, "NotIn", ["reserved"])]], None),
        ([[(KARPENTER, "In", ["spot"])], [(KARPENTER, "In", ["on-demand"])]], None),
        ([[(KARPENTER, "In", ["spot"])], [("zone", "In", ["a"])]], None),
        ([[(KARPENTER, "In", ["spot"])]], KARPENTER),
        ([[("zone", "In", ["a"]), (KARPENTER, "In", ["on-demand", "reserved"])]], KARPENTER),
        ([[(KARPENTER, "NotIn", ["spot"])]], KARPENTER),
        ([[(KARPENTER, "DoesNotExist", [])]], KARPENTER),
        ([[(GKE, "Exists", [])]], GKE),
        ([[(KARPENTER, "In", ["spot"])], []], KARPENTER),  # an empty term matches no node
    ],
)
def test_an_affinity_selects_a_class_only_if_it_leaves_one(
    terms: list[list[tuple[str, str, list[str]]]], label: str | None
):
    selector_terms = [
        {"matchExpressions": [{"key": k, "operator": o, "values": v} for k, o, v in requirements]}
        if requirements
        else {}
        for requirements in terms
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": selector_terms}}
    assert RULES.chosen_by(convert({"affinity": {"nodeAffinity": required}}, PodSpec)) == label


def test_spot_nodes_that_are_tainted_are_tolerated_by_spot_pods_alone():
    (toleration,) = RULES.tolerations(SPOT)
    assert (toleration.key, toleration.value, toleration.effect) == (
        "kubernetes.azure.com/scalesetpriority", "spot", "NoSchedule",
    )  # fmt: skip
    assert RULES.tolerations(ON_DEMAND) == ()


def term(*keys: str) -> NodeSelectorTerm:
    return convert({"matchExpressions": [{"key": key, "operator": "Exists"} for key in keys]}, NodeSelectorTerm)


def keys(terms: list[dict[str, list[dict[str, str]]]]) -> list[list[str]]:
    return [[requirement["key"] for requirement in one.get("matchExpressions", [])] for one in terms]


def test_the_class_is_anded_into_every_term_that_the_pod_has():
    alternatives = ClassRules(DEFAULT_RULES[:2]).requirements(SPOT)
    karpenter, eks = (rule.label for rule in DEFAULT_RULES[:2])
    assert keys(with_class([], alternatives)) == [[karpenter], [eks]]
    assert keys(with_class([term("a"), term("b", "c")], alternatives)) == [
        ["a", karpenter], ["a", eks], ["b", "c", karpenter], ["b", "c", eks],
    ]  # fmt: skip


def test_an_empty_term_matches_nothing_and_is_dropped_not_extended():
    alternatives = ClassRules(DEFAULT_RULES[:1]).requirements(SPOT)
    assert keys(with_class([term(), term("a")], alternatives)) == [["a", DEFAULT_RULES[0].label]]
    with pytest.raises(ValueError, match="matches no node"):
        with_class([term()], alternatives)


def test_match_fields_are_kept():
    named = convert({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}, NodeSelectorTerm)
    (extended,) = with_class([named], ClassRules(DEFAULT_RULES[:1]).requirements(ON_DEMAND))
    assert extended["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]
    assert extended["matchExpressions"][0]["operator"] == "NotIn"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, None),
        ({"nodeSelector": {"disk": "ssd"}}, None),
        ({"nodeSelector": {"karpenter.sh/capacity-type": "spot"}}, "karpenter.sh/capacity-type"),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "cloud.google.com/gke-spot", "operator": "DoesNotExist"}]}
                            ]
                        }
                    }
                }
            },
            "cloud.google.com/gke-spot",
        ),
    ],
)
def test_a_template_that_chooses_its_class_itself_is_recognised(spec: dict[str, object], expected: str | None):
    assert RULES.chosen_by(convert(spec, PodSpec)) == expected
