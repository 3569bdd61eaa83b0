"""Clusters of every feature, drawn by hypothesis from the menus.

Strategies are made once, here, and not inside the composites: making one costs more than drawing from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from plimsoll.kube.types.core import Node, Pod, Taint
from plimsoll.scheduling.model import ComingNode, NodeOffering, Template
from tests.scheduling import cases, menus
from tests.scheduling.cases import Case
from tests.scheduling.menus import Fragment

_UNHURRIED = [HealthCheck.too_slow, HealthCheck.data_too_large]


def examples(count: int) -> settings:
    """The same examples at every run: what fails here fails everywhere."""
    return settings(
        max_examples=count, derandomize=True, database=None, deadline=None, suppress_health_check=_UNHURRIED
    )


def campaign(count: int) -> settings:
    """Ever new examples, for `make soak`; a failure prints what repeats it."""
    return settings(
        max_examples=count, derandomize=False, deadline=None, suppress_health_check=_UNHURRIED, print_blob=True
    )


TERMINATING: Fragment = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
FINISHED: Fragment = {"status": {"phase": "Succeeded"}}
# Pods that nobody moves elsewhere when their node goes.
OF_A_DAEMONSET: Fragment = {
    "metadata": {"ownerReferences": [{"kind": "DaemonSet", "name": "d", "uid": "uid-d", "controller": True}]}
}
MIRROR: Fragment = {"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}}
GATED: Fragment = {"spec": {"schedulingGates": [{"name": "example.com/hold"}]}}
NOT_WORTH_A_NODE: Fragment = {"spec": {"priority": -20}}


def _evenly_from(*menus_: Sequence[Fragment]) -> st.SearchStrategy[Fragment]:
    """One entry, every menu about as likely as the next whatever its length."""
    longest = max(len(menu) for menu in menus_)
    return st.sampled_from([entry for menu in menus_ for _ in range(round(longest / len(menu))) for entry in menu])


def _up_to(most: int) -> st.SearchStrategy[int]:
    return st.integers(0, most)


_counts = {most: _up_to(most) for most in range(12)}
_coin, _one_in_ten, _one_in_twenty = st.booleans(), st.integers(0, 9), st.integers(0, 19)
_sizes, _pod_labels, _namespaces = (
    st.sampled_from(menus.SIZES),
    st.sampled_from(menus.POD_LABELS),
    st.sampled_from(tuple(menus.NAMESPACES)),
)
_alone, _with_others = _evenly_from(*menus.ALONE), _evenly_from(*menus.WITH_OTHERS)
_tolerations = st.sampled_from(menus.TOLERATIONS)


# ── pods ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@st.composite
def pod_fragments(draw: st.DrawFn) -> dict[str, Any]:
    """What a pod says of itself, without a name: a size, labels, and up to four features."""
    chosen = [draw(_sizes), draw(_pod_labels)]
    if draw(_coin):
        chosen.append(draw(_alone))
    if draw(_coin):
        chosen.append(draw(_tolerations))
    chosen += [draw(_with_others) for _ in range(draw(_counts[2]))]
    return menus.merge(*menus.without_repeats(chosen))


_fragments = pod_fragments()


@st.composite
def pending_pods(draw: st.DrawFn, *, max_size: int) -> tuple[Pod, ...]:
    """Some alike, as the replicas of an owner are."""
    pods: list[Pod] = []
    for owner in range(1 + draw(_counts[max_size - 1])):
        fragment, namespace = draw(_fragments), draw(_namespaces)
        odd = draw(_one_in_twenty)
        if odd in (1, 2):
            fragment = menus.merge(fragment, GATED if odd == 1 else NOT_WORTH_A_NODE)
        replicas = range(1 + draw(_counts[2]))
        pods += [cases.pod(f"pod-{owner}-{replica}", fragment, namespace=namespace) for replica in replicas]
        if len(pods) >= max_size:
            break
    return tuple(pods[:max_size])


_states = st.sampled_from(({}, {}, {}, {}, {}, {}, TERMINATING, FINISHED, OF_A_DAEMONSET, MIRROR))


@st.composite
def bound_pods(draw: st.DrawFn, node_names: Sequence[str], *, max_size: int, born: str = "first") -> tuple[Pod, ...]:
    """What is there already, lawful or not: rules may have been broken by hand, or changed since."""
    if not node_names:
        return ()
    pods = []
    for number in range(draw(_counts[max_size])):
        fragment = menus.merge(draw(_fragments), draw(_states))
        node_name = node_names[draw(_counts[len(node_names) - 1])]
        name, uid = f"bound-{number}", f"uid-{born}-{number}"
        pods.append(cases.pod(name, fragment, namespace=draw(_namespaces), node=node_name, uid=uid))
    return tuple(pods)


# ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_taints = st.sampled_from(((), (), (), *((taint,) for taint in menus.TAINTS)))
_zone_labels = st.sampled_from([{menus.ZONE: zone} for zone in (*menus.ZONES, *menus.ZONES)] + [{}])
_node_labels, _capacities = st.sampled_from(menus.NODE_LABELS), st.sampled_from(menus.CAPACITIES)


@st.composite
def nodes(draw: st.DrawFn, *, max_size: int) -> tuple[Node, ...]:
    made = []
    for number in range(draw(_counts[max_size])):
        cordoned = draw(_one_in_ten) == 1
        made.append(
            cases.node(
                f"node-{number}",
                draw(_capacities),
                labels={**draw(_zone_labels), **draw(_node_labels)},
                taints=(*draw(_taints), *((menus.CORDON,) if cordoned else ())),
                unschedulable=cordoned,
            )
        )
    return tuple(made)


def _daemon(name: str, app: str, *fragments: Fragment) -> Pod:
    return cases.pod(f"daemon-{name}", {"metadata": {"labels": {"app": app}}}, *fragments)


_DAEMONS = (
    _daemon("everywhere", "d", menus.SIZES[0], menus.TOLERATIONS[4]),
    _daemon("without-tolerations", "d", menus.SIZES[1]),
    _daemon("with-a-port", "d", menus.SIZES[6], menus.HOST_PORTS[0]),
    _daemon("on-ssd", "c", menus.SIZES[0], menus.NODE_RULES[0]),
)
_daemons = st.sampled_from(((), (), *((daemon,) for daemon in _DAEMONS), _DAEMONS[1:3]))
_prices = st.sampled_from((0.1, 0.2, 0.35, 1.0))
_limits, _stock = st.sampled_from((None, None, None, 2, 1, 0)), st.sampled_from((None, None, None, 1))
_priorities = st.sampled_from((0, 0, 0, 5))


@st.composite
def templates(draw: st.DrawFn, *, max_size: int) -> tuple[Template, ...]:
    return tuple(
        Template(
            name=f"template-{number}",
            offerings=tuple(_offering(draw, f"offering-{number}-{n}") for n in range(1 + draw(_counts[2]))),
            labels=dict(draw(_node_labels)),
            taints=_as_taints(draw(_taints)),
            max_nodes=draw(_limits),
            daemons=draw(_daemons),
            priority=draw(_priorities),
        )
        for number in range(min(max_size, draw(_counts[max_size + 1])))
    )


def _offering(draw: st.DrawFn, name: str) -> NodeOffering:
    return cases.offering(
        name, draw(_capacities), draw(_prices), labels=dict(draw(_zone_labels)), available=draw(_stock)
    )


def _as_taints(fragments: Sequence[Fragment]) -> tuple[Taint, ...]:
    return tuple(Taint(**fragment) for fragment in fragments)


@st.composite
def coming_nodes(draw: st.DrawFn) -> tuple[ComingNode, ...]:
    if draw(_counts[3]) != 1:
        return ()
    labels = {menus.HOSTNAME: "coming", **draw(_zone_labels), **draw(_node_labels)}
    capacity = cases.offering("", draw(_capacities), 0).allocatable
    return (ComingNode("coming", labels, capacity, _as_taints(draw(_taints)), draw(_daemons)),)


@st.composite
def clusters(
    draw: st.DrawFn, *, max_nodes: int = 4, max_pending: int = 6, max_bound: int = 5, max_templates: int = 2
) -> Case:
    at_hand = draw(nodes(max_size=max_nodes))
    return Case(
        nodes=at_hand,
        bound=draw(bound_pods([node.name for node in at_hand], max_size=max_bound)),
        pending=draw(pending_pods(max_size=max_pending)),
        templates=draw(templates(max_size=max_templates)),
        coming=draw(coming_nodes()),
    )
