"""Counts that are kept change by change say the same as counting all over again, whatever changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from plimsoll.controllers.placement.admission.counts import AdmissionCounts
from plimsoll.controllers.placement.admission.pending_pods import AdmissionLedger
from plimsoll.controllers.placement.capacity_class import ClassRules
from plimsoll.controllers.placement.replica_counts import count, replicas
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.resources import NODES, PODS
from plimsoll.kube.workloads import pods_of
from tests import build

OWNERS = [build.replica_set(f"rs-{number}") for number in range(2)]
STRANGER = build.stateful_set("other")
LABELS: tuple[dict[str, str], ...] = (
    {},
    {"karpenter.sh/capacity-type": "spot"},
    {"karpenter.sh/capacity-type": "on-demand"},
    {"cloud.google.com/gke-spot": "true"},
)

pods = st.tuples(
    st.just("pod"),
    st.integers(0, 5),  # its name
    st.sampled_from([None, STRANGER, *OWNERS]),
    st.sampled_from(["", "n0", "n1", "gone"]),
    st.sampled_from([{}, {"plimsoll.dev/placement-class": "spot"}]),
    st.sampled_from(["Running", "Pending", "Failed"]),
    st.booleans(),  # terminating
    st.integers(0, 1),  # one of two objects of that name
)
nodes = st.tuples(st.just("node"), st.integers(0, 1), st.sampled_from(LABELS))
removals = st.tuples(st.sampled_from(["no pod", "no node"]), st.integers(0, 5))


@given(st.lists(pods | nodes | removals, max_size=40), st.integers(0, 40))
def test_kept_counts_are_what_counting_finds(changes, begins_at):
    view, rules = View.of({PODS: (), NODES: ()}), ClassRules()
    counts = None
    for position, change in enumerate([*changes, ("no pod", 99)]):
        if position == min(begins_at, len(changes)):
            counts = AdmissionCounts(view, rules, AdmissionLedger())  # over what is already there
        match change:
            case ("pod", name, owner, node, annotations, phase, terminating, life):
                view[PODS].put(
                    build.pod(
                        f"p{name}", owner=owner, node=node, annotations=annotations, phase=phase, terminating=terminating,
                        uid=f"p{name}-{life}",
                    )
                )  # fmt: skip
            case ("node", name, labels):
                view[NODES].put(build.node(f"n{name}", labels=labels, uid=f"n{name}"))
            case ("no pod", name):
                view[PODS].remove("default", f"p{name}")
            case ("no node", name):
                view[NODES].remove("", f"n{name}")
        if counts is None:
            continue
        for owner in OWNERS:
            found = count(replicas(pods_of(owner, view), view, rules))
            assert counts.of(owner.namespace, owner.uid) == (found.spot, found.on_demand)
        assert counts.rules_in_use == rules.in_use(node.labels for node in view[NODES])
