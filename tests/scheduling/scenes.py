"""Each rule broken on purpose, beside twins that obey: what a checker, an engine or a scheduler must tell apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from plimsoll.kube.types.core import Node, Pod
from tests.scheduling import menus
from tests.scheduling.cases import node, pod
from tests.scheduling.menus import HOSTNAME, ZONE, apart, container, evenly, together
from tests.scheduling.strategies import TERMINATING

Fragment = Mapping[str, Any]

A, B = {"metadata": {"labels": {"app": "a"}}}, {"metadata": {"labels": {"app": "b"}}}
SMALL = {"spec": {"containers": [container("main", {"cpu": "100m"})]}}
APP_A = {"labelSelector": {"matchLabels": {"app": "a"}}}


class Scene(NamedTuple):
    """A pod on the first node. `fault` names the rule that this breaks; without one, nothing is broken."""

    says: str
    fault: str
    pod: Pod
    nodes: Sequence[Node]
    bound: Sequence[Pod] = ()
    shows_in_the_end: bool = True


def requires(*terms: Fragment) -> Fragment:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"spec": {"affinity": {"nodeAffinity": required}}}


def label(key: str, operator: str, *values: str) -> Fragment:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def asking(*containers: Fragment, **spec: Any) -> Pod:
    return pod("p", {"spec": {"containers": list(containers), **spec}})


def tolerating(**toleration: str) -> Pod:
    return pod("p", SMALL, {"spec": {"tolerations": [toleration]}})


def on_port(*, init: bool = False, **port: Any) -> Fragment:
    ports = [{"containerPort": 80, "hostPort": 80, **port}]
    if init:
        return {"spec": {"initContainers": [container("init", {}, ports=ports)]}}
    return {"spec": {"containers": [container("main", {}, ports=ports)]}}


def mounting(claim: str) -> Pod:
    return pod("p", SMALL, {"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}})


TWO_CPU = {"cpu": "2", "memory": "4Gi", "pods": "10"}
N = [node("n", TWO_CPU, zone="z1")]
THREE_ZONES = [node("n", TWO_CPU, zone="z1"), node("m", TWO_CPU, zone="z2"), node("o", TWO_CPU, zone="z3")]
BATCH = [node("n", taints=[{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}])]
LEAVING = [node("n", taints=[{"key": "leaving", "effect": "NoExecute"}])]
SIDECAR = container("side", {"cpu": "1"}, restartPolicy="Always")

SCENES = (
    # ── resources
    Scene("as much as there is", "", asking(container("c", {"cpu": "2"})), N),
    Scene("a thousandth more", "resources", asking(container("c", {"cpu": "2001m"})), N),
    Scene("containers add up", "resources", asking(container("c", {"cpu": "1"}), container("d", {"cpu": "1001m"})), N),
    Scene("a byte more", "resources", asking(container("c", {"memory": "4294967297"})), N),
    Scene("of what the node lacks", "resources", asking(container("c", {"example.com/gpu": "1"})), N),
    Scene("nothing of what it lacks", "", asking(container("c", {"example.com/gpu": "0"})), N),
    Scene(
        "an init container alone", "", asking(container("c", {}), initContainers=[container("i", {"cpu": "2"})]), N
    ),
    Scene(
        "init is not added to main", "",
        asking(container("c", {"cpu": "2"}), initContainers=[container("i", {"cpu": "2"})]), N,
    ),
    Scene(
        "init larger than the node", "resources",
        asking(container("c", {}), initContainers=[container("i", {"cpu": "3"})]), N,
    ),
    Scene(
        "a sidecar is added to main", "resources",
        asking(container("c", {"cpu": "1001m"}), initContainers=[SIDECAR]), N,
    ),
    Scene(
        "a sidecar is added to later init", "resources",
        asking(container("c", {}), initContainers=[SIDECAR, container("i", {"cpu": "1001m"})]), N,
    ),
    Scene(
        "but not to earlier init", "",
        asking(container("c", {}), initContainers=[container("i", {"cpu": "2"}), SIDECAR]), N,
    ),
    Scene("overhead", "resources", asking(container("c", {"cpu": "2"}), overhead={"cpu": "1m"}), N),
    Scene(
        "the pod's own request", "resources",
        asking(container("c", {"cpu": "1"}), resources={"requests": {"cpu": "2001m"}}), N,
    ),
    Scene(
        "the pod's own request replaces the sum", "",
        asking(container("c", {"cpu": "2500m"}), resources={"requests": {"cpu": "2"}}), N,
    ),
    Scene(
        "what others hold", "resources", asking(container("c", {"cpu": "1500m"})), N,
        [pod("b", {"spec": {"containers": [container("c", {"cpu": "1"})]}}, node="n")],
    ),
    Scene(
        "terminating pods still hold it", "resources", asking(container("c", {"cpu": "1500m"})), N,
        [pod("b", {"spec": {"containers": [container("c", {"cpu": "1"})]}}, TERMINATING, node="n")],
    ),
    Scene(
        "finished pods hold nothing", "", asking(container("c", {"cpu": "1500m"})), N,
        [pod("b", {"spec": {"containers": [container("c", {"cpu": "1"})]}, "status": {"phase": "Failed"}}, node="n")],
    ),
    Scene(
        "an overcommitted node still takes what asks for something else", "",
        asking(container("c", {"memory": "1Gi"})), N,
        [pod("b", {"spec": {"containers": [container("c", {"cpu": "5"})]}}, node="n")],
    ),
    Scene("one pod too many", "pods", pod("p", SMALL), [node("n", {"cpu": "2", "pods": "1"})], [pod("b", node="n")]),
    Scene("a node for no pods", "pods", asking(container("c", {})), [node("n", {"cpu": "2", "memory": "4Gi"})]),
    # ── which nodes
    Scene("nodeSelector", "node-affinity", pod("p", {"spec": {"nodeSelector": {ZONE: "z2"}}}), N),
    Scene("nodeSelector obeyed", "", pod("p", {"spec": {"nodeSelector": {ZONE: "z1"}}}), N),
    Scene("In", "node-affinity", pod("p", requires(label(ZONE, "In", "z2", "z3"))), N),
    Scene("NotIn", "node-affinity", pod("p", requires(label(ZONE, "NotIn", "z1"))), N),
    Scene("NotIn, absent", "", pod("p", requires(label("disk", "NotIn", "ssd"))), N),
    Scene("Exists", "node-affinity", pod("p", requires(label("disk", "Exists"))), N),
    Scene("DoesNotExist", "node-affinity", pod("p", requires(label(ZONE, "DoesNotExist"))), N),
    Scene("Gt", "", pod("p", requires(label("rank", "Gt", "4"))), [node("n", labels={"rank": "5"})]),
    Scene("Gt, equal", "node-affinity", pod("p", requires(label("rank", "Gt", "5"))), [node("n", labels={"rank": "5"})]),
    Scene("Lt", "", pod("p", requires(label("rank", "Lt", "10"))), [node("n", labels={"rank": "9"})]),
    Scene("Gt, no number", "node-affinity", pod("p", requires(label("rank", "Gt", "1"))), [node("n", labels={"rank": "x"})]),
    Scene("one of two terms", "", pod("p", requires(label(ZONE, "In", "z2"), label(ZONE, "In", "z1"))), N),
    Scene("an empty term matches nothing", "node-affinity", pod("p", requires({})), N),
    Scene("an empty term beside one that matches", "", pod("p", requires({}, label(ZONE, "In", "z1"))), N),
    Scene(
        "all of a term", "node-affinity",
        pod("p", requires({"matchExpressions": [
            {"key": ZONE, "operator": "In", "values": ["z1"]}, {"key": "disk", "operator": "Exists"},
        ]})), N,
    ),
    Scene(
        "matchFields", "node-affinity",
        pod("p", requires({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}]})), N,
    ),
    Scene(
        "matchFields obeyed", "",
        pod("p", requires({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]})), N,
    ),
    Scene(
        "selector and affinity both count", "node-affinity",
        pod("p", {"spec": {"nodeSelector": {ZONE: "z2"}}}, requires(label(ZONE, "In", "z1"))), N,
    ),
    # ── taints
    Scene("NoSchedule", "taints", pod("p", SMALL), BATCH),
    Scene("NoExecute", "taints", pod("p", SMALL), LEAVING),
    Scene("PreferNoSchedule", "", pod("p", SMALL), [node("n", taints=[{"key": "k", "effect": "PreferNoSchedule"}])]),
    Scene("Equal", "", tolerating(key="dedicated", operator="Equal", value="batch", effect="NoSchedule"), BATCH),
    Scene("another value", "taints", tolerating(key="dedicated", operator="Equal", value="web"), BATCH),
    Scene("another effect", "taints", tolerating(key="dedicated", operator="Exists", effect="NoExecute"), BATCH),
    Scene("another key", "taints", tolerating(key="other", operator="Exists"), BATCH),
    Scene("every effect", "", tolerating(key="dedicated", operator="Exists"), BATCH),
    Scene("everything", "", tolerating(operator="Exists"), LEAVING),
    Scene("cordoned", "unschedulable", pod("p", SMALL), [node("n", unschedulable=True)]),
    Scene(
        "cordoned, tolerated", "", tolerating(key="node.kubernetes.io/unschedulable", operator="Exists"),
        [node("n", unschedulable=True)],
    ),
    # ── host ports
    Scene("taken", "host-ports", pod("p", on_port()), N, [pod("b", on_port(), node="n")]),
    Scene("another protocol", "", pod("p", on_port(protocol="UDP")), N, [pod("b", on_port(), node="n")]),
    Scene(
        "another address", "", pod("p", on_port(hostIP="10.0.0.1")), N, [pod("b", on_port(hostIP="10.0.0.2"), node="n")]
    ),
    Scene("every address", "host-ports", pod("p", on_port()), N, [pod("b", on_port(hostIP="10.0.0.2"), node="n")]),
    Scene("of a sidecar", "host-ports", pod("p", menus.HOST_PORTS[4]), N, [pod("b", menus.HOST_PORTS[0], node="n")]),
    Scene("of an init container", "", pod("p", on_port(init=True)), N, [pod("b", on_port(), node="n")]),
    # ── affinity
    Scene("nobody to join", "pod-affinity", pod("p", B, together({"topologyKey": ZONE, **APP_A})), N),
    Scene("the first of its own kind", "", pod("p", A, together({"topologyKey": ZONE, **APP_A})), N),
    Scene(
        "its own kind is elsewhere", "pod-affinity", pod("p", A, together({"topologyKey": ZONE, **APP_A})), THREE_ZONES,
        [pod("b", A, node="m")], shows_in_the_end=False,
    ),
    Scene("joined", "", pod("p", B, together({"topologyKey": ZONE, **APP_A})), N, [pod("b", A, node="n")]),
    Scene(
        "another namespace", "pod-affinity", pod("p", B, together({"topologyKey": ZONE, **APP_A})), N,
        [pod("b", A, namespace="green", node="n")],
    ),
    Scene(
        "a namespace by name", "", pod("p", B, together({"topologyKey": ZONE, **APP_A, "namespaces": ["green"]})), N,
        [pod("b", A, namespace="green", node="n")],
    ),
    Scene(
        "namespaces by label", "",
        pod("p", B, together({"topologyKey": ZONE, **APP_A, "namespaceSelector": {"matchLabels": {"team": "green"}}})),
        N, [pod("b", A, namespace="green", node="n")],
    ),
    Scene(
        "namespaces by label, its own left out", "pod-affinity",
        pod("p", B, together({"topologyKey": ZONE, **APP_A, "namespaceSelector": {"matchLabels": {"team": "green"}}})),
        N, [pod("b", A, node="n")],
    ),
    Scene(
        "every namespace", "", pod("p", B, together({"topologyKey": ZONE, **APP_A, "namespaceSelector": {}})), N,
        [pod("b", A, namespace="green", node="n")],
    ),
    Scene("a node without the label", "pod-affinity", pod("p", A, together({"topologyKey": "rack", **APP_A})), N),
    Scene(
        "all terms by one and the same pod", "pod-affinity",
        pod("p", B, together(
            {"topologyKey": ZONE, **APP_A}, {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "b"}}},
        )), N, [pod("b", A, node="n"), pod("c", B, node="n")],
    ),
    Scene(
        "matchLabelKeys", "pod-affinity",
        pod("p", B, {"metadata": {"labels": {"tier": "x"}}},
            together({"topologyKey": ZONE, **APP_A, "matchLabelKeys": ["tier"]})),
        N, [pod("b", A, {"metadata": {"labels": {"tier": "y"}}}, node="n")],
    ),
    Scene("no selector matches nobody", "pod-affinity", pod("p", A, together({"topologyKey": ZONE})), N, [pod("b", node="n")]),
    # ── anti-affinity
    Scene("kept apart", "pod-anti-affinity", pod("p", B, apart({"topologyKey": ZONE, **APP_A})), N, [pod("b", A, node="n")]),
    Scene(
        "apart by zone, beside by host", "pod-anti-affinity", pod("p", B, apart({"topologyKey": ZONE, **APP_A})),
        [*N, node("twin", zone="z1")], [pod("b", A, node="twin")],
    ),
    Scene(
        "apart by host is apart", "", pod("p", B, apart({"topologyKey": HOSTNAME, **APP_A})),
        [*N, node("twin", zone="z1")], [pod("b", A, node="twin")],
    ),
    Scene("from itself it need not be apart", "", pod("p", A, apart({"topologyKey": ZONE, **APP_A})), N),
    Scene(
        "terminating pods count", "pod-anti-affinity", pod("p", B, apart({"topologyKey": ZONE, **APP_A})), N,
        [pod("b", A, TERMINATING, node="n")],
    ),
    Scene(
        "mismatchLabelKeys", "pod-anti-affinity",
        pod("p", A, apart({"topologyKey": ZONE, "labelSelector": {}, "mismatchLabelKeys": ["app"]})), N,
        [pod("b", B, node="n")],
    ),
    Scene(
        "mismatchLabelKeys, of its own kind", "",
        pod("p", A, apart({"topologyKey": ZONE, "labelSelector": {}, "mismatchLabelKeys": ["app"]})), N,
        [pod("b", A, node="n")],
    ),
    Scene("no label, no domain", "", pod("p", B, apart({"topologyKey": "rack", **APP_A})), N, [pod("b", A, node="n")]),
    Scene(
        "kept away by one that is there", "anti-affinity-of-others", pod("p", A), N,
        [pod("b", B, apart({"topologyKey": ZONE, **APP_A}), node="n")],
    ),
    Scene(
        "by one in another namespace", "anti-affinity-of-others", pod("p", A), N,
        [pod("b", B, apart({"topologyKey": ZONE, **APP_A, "namespaceSelector": {"matchLabels": {"team": "blue"}}}),
             namespace="green", node="n")],
    ),
    Scene(
        "by one that means its own namespace", "", pod("p", A), N,
        [pod("b", B, apart({"topologyKey": ZONE, **APP_A}), namespace="green", node="n")],
    ),
    # ── topology spread
    Scene(
        "one more than the emptiest", "", pod("p", A, evenly({"topologyKey": ZONE})), THREE_ZONES,
        [pod("b", A, node="m")],
    ),
    Scene(
        "two more", "topology-spread", pod("p", A, evenly({"topologyKey": ZONE})), THREE_ZONES, [pod("b", A, node="n")]
    ),
    Scene(
        "maxSkew 2", "", pod("p", A, evenly({"topologyKey": ZONE, "maxSkew": 2})), THREE_ZONES, [pod("b", A, node="n")]
    ),
    Scene(
        "a pod that does not count itself", "", pod("p", B, evenly({"topologyKey": ZONE})), THREE_ZONES,
        [pod("b", A, node="n")],
    ),
    Scene(
        "terminating pods do not count", "", pod("p", A, evenly({"topologyKey": ZONE})), THREE_ZONES,
        [pod("b", A, TERMINATING, node="n")],
    ),
    Scene(
        "other namespaces do not count", "", pod("p", A, evenly({"topologyKey": ZONE})), THREE_ZONES,
        [pod("b", A, namespace="green", node="n")],
    ),
    Scene("a node without the label", "topology-spread", pod("p", A, evenly({"topologyKey": "rack"})), N),
    Scene("only one zone there is", "", pod("p", A, evenly({"topologyKey": ZONE})), N, [pod("b", A, node="n")]),
    Scene(
        "minDomains", "topology-spread", pod("p", A, evenly({"topologyKey": ZONE, "minDomains": 2})), N,
        [pod("b", A, node="n")],
    ),
    Scene(
        "zones that its affinity forbids do not count", "",
        pod("p", A, requires(label(ZONE, "In", "z1")), evenly({"topologyKey": ZONE})), THREE_ZONES,
        [pod("b", A, node="n")],
    ),
    Scene(
        "unless they shall", "topology-spread",
        pod("p", A, requires(label(ZONE, "In", "z1")), evenly({"topologyKey": ZONE, "nodeAffinityPolicy": "Ignore"})),
        THREE_ZONES, [pod("b", A, node="n")],
    ),
    Scene(
        "tainted nodes count", "topology-spread", pod("p", A, evenly({"topologyKey": HOSTNAME})),
        [*N, node("t", taints=menus.TAINTS[:1])], [pod("b", A, node="n")],
    ),
    Scene(
        "unless they shall not", "", pod("p", A, evenly({"topologyKey": HOSTNAME, "nodeTaintsPolicy": "Honor"})),
        [*N, node("t", taints=menus.TAINTS[:1])], [pod("b", A, node="n")],
    ),
    Scene(
        "nodes that lack another of its labels do not count", "",
        pod("p", A, evenly({"topologyKey": HOSTNAME}, {"topologyKey": ZONE})), [*N, node("zoneless")],
        [pod("b", A, node="n")],
    ),
    Scene(
        "matchLabelKeys", "",
        pod("p", A, {"metadata": {"labels": {"tier": "x"}}}, evenly({"topologyKey": ZONE, "matchLabelKeys": ["tier"]})),
        THREE_ZONES, [pod("b", A, {"metadata": {"labels": {"tier": "y"}}}, node="n")],
    ),
    Scene(
        "the second of two constraints", "topology-spread",
        pod("p", A, evenly({"topologyKey": ZONE, "maxSkew": 5}, {"topologyKey": HOSTNAME})), THREE_ZONES,
        [pod("b", A, node="n")],
    ),
    Scene(
        "ScheduleAnyway is a wish", "", pod("p", A, evenly({"topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"})),
        THREE_ZONES, [pod("b", A, node="n")],
    ),
    Scene(
        "an empty selector counts nobody", "", pod("p", A, evenly({"topologyKey": ZONE, "labelSelector": {}})),
        THREE_ZONES, [pod("b", A, node="n"), pod("c", A, node="n")],
    ),
    # ── volumes
    Scene("its volume is here", "", mounting("in-z1"), N),
    Scene("its volume is elsewhere", "volumes", mounting("in-z1"), [node("n", zone="z2")]),
    Scene("by the volume's label", "volumes", mounting("labelled-z2"), N),
    Scene("one of several zones", "", mounting("regional"), [node("n", zone="z3")]),
    Scene("none of several zones", "volumes", mounting("regional"), N),
    Scene("no such claim", "volumes", mounting("missing"), N),
)  # fmt: skip
