"""Would kube-scheduler accept this? A second opinion, slow and obvious, that shares no code with the engine.

Every rule here is one filter of kube-scheduler 1.36, written as plain loops over the objects. A `Situation` is a set of
nodes and of the pods on them; `Situation.ask(pod)` prepares what the rules ask of the whole cluster, and
`Asked.refusals(node)` names every rule that says no.

A plan is judged by two questions, with all of its new nodes there from the start, as they are when its pods bind:

*Could kube-scheduler have followed it?* (`illegal_steps`) Each pod in turn is accepted by its node, given those before it.
Some rules need the order: two pods that each require the other satisfy one another once both are placed, yet neither
could have come first.

*Does the final state obey?* (`violations`) Each placed pod in turn is taken out, asked for again and put back: its node
would still have it. For topology spread that comes to: pods counted in its domain − fewest in any eligible domain
≤ maxSkew, over the final counts. It is stricter than kube-scheduler, which never looks back: those that come later
may leave a pod that it bound first with too large a skew. A pod that its own affinity covers is company enough for
itself here: whether it had to join others when it came is a matter of order.

Pods that were bound before keep only their anti-affinity against newcomers: their other rules are not asked again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from plimsoll.kube.types.core import Namespace, Node, Pod, Taint, TopologySpreadConstraint
from plimsoll.kube.types.meta import Requirement
from plimsoll.kube.types.storage import PersistentVolume, PersistentVolumeClaim
from tests.scheduling.requests import node_capacity, requests_of
from tests.scheduling.rules import (
    hard_spread,
    host_ports,
    matches_node,
    node_selector_matches,
    ports_collide,
    required_affinity,
    required_anti_affinity,
    requirement_holds,
    spread_requirements,
    term_covers,
    tolerates,
    untolerated_taints,
)

RULES = (
    "pods",
    "resources",
    "node-affinity",
    "taints",
    "unschedulable",
    "host-ports",
    "pod-affinity",
    "pod-anti-affinity",
    "anti-affinity-of-others",
    "topology-spread",
    "volumes",
)
_ZONE_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


# ── a moment of a cluster ────────────────────────────────────────────────────────────────────────────────────────────


class Situation:
    """Nodes, and the pods on them. Finished pods hold nothing and are left out, as kube-scheduler leaves them out."""

    def __init__(
        self,
        nodes: Iterable[Node],
        bound: Iterable[Pod] = (),
        *,
        namespaces: Iterable[Namespace] = (),
        claims: Iterable[PersistentVolumeClaim] = (),
        volumes: Iterable[PersistentVolume] = (),
    ) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.pods_on: dict[str, list[Pod]] = {name: [] for name in self.nodes}
        self.namespaces = {namespace.name: namespace for namespace in namespaces}
        self.claims = {(claim.namespace, claim.name): claim for claim in claims}
        self.volumes = {volume.name: volume for volume in volumes}
        self.used_on: dict[str, Counter[str]] = {name: Counter() for name in self.nodes}
        for pod in bound:
            if not pod.finished and pod.spec.node_name in self.nodes:
                self.place(pod, pod.spec.node_name)

    def copy(self) -> Situation:
        twin = Situation(self.nodes.values())
        twin.namespaces, twin.claims, twin.volumes = self.namespaces, self.claims, self.volumes
        twin.pods_on = {name: list(pods) for name, pods in self.pods_on.items()}
        twin.used_on = {name: Counter(used) for name, used in self.used_on.items()}
        return twin

    def add_node(self, node: Node) -> None:
        self.nodes[node.name] = node
        self.pods_on[node.name] = []
        self.used_on[node.name] = Counter()

    def remove_node(self, name: str) -> None:
        del self.nodes[name], self.pods_on[name], self.used_on[name]

    def place(self, pod: Pod, node_name: str) -> None:
        self.pods_on[node_name].append(pod)
        self.used_on[node_name].update(requests_of(pod))

    def take(self, pod: Pod, node_name: str) -> None:
        """Take one pod off again: this very object, since tests may use equal ones."""
        pods = self.pods_on[node_name]
        del pods[next(position for position, other in enumerate(pods) if other is pod)]
        self.used_on[node_name].subtract(requests_of(pod))

    def ask(self, pod: Pod) -> Asked:
        return Asked(self, pod)


class Asked:
    """One pod, asking for a place in a situation that does not change meanwhile."""

    def __init__(self, situation: Situation, pod: Pod) -> None:
        self.situation = situation
        self.pod = pod
        self.requests = requests_of(pod)
        self.ports = host_ports(pod)
        self._count_affinity()
        self._count_spread()

    def _count_affinity(self) -> None:
        pod, namespaces = self.pod, self.situation.namespaces
        affinity, anti_affinity = required_affinity(pod), required_anti_affinity(pod)
        self.drawn_to: set[tuple[str, str]] = (
            set()
        )  # (topology key, value) that hold a pod which all affinity terms cover
        self.kept_from: set[tuple[str, str]] = set()  # … a pod that one of the anti-affinity terms covers
        self.unwelcome_in: set[tuple[str, str]] = set()  # … a pod whose own anti-affinity covers this pod
        for name, others in self.situation.pods_on.items():
            labels = self.situation.nodes[name].labels
            for other in others if affinity or anti_affinity else ():
                if affinity and all(term_covers(term, pod, other, namespaces) for term in affinity):
                    self.drawn_to |= {
                        (t.topology_key, labels[t.topology_key]) for t in affinity if t.topology_key in labels
                    }
                for term in anti_affinity:
                    if term.topology_key in labels and term_covers(term, pod, other, namespaces):
                        self.kept_from.add((term.topology_key, labels[term.topology_key]))
            for other in others:
                for term in required_anti_affinity(other):
                    if term.topology_key in labels and term_covers(term, other, pod, namespaces):
                        self.unwelcome_in.add((term.topology_key, labels[term.topology_key]))

    def _count_spread(self) -> None:
        self.spread: list[tuple[TopologySpreadConstraint, bool, Counter[str]]] = []
        constraints = hard_spread(self.pod)
        for constraint in constraints:
            requirements = spread_requirements(constraint, self.pod)
            domains: Counter[str] = Counter()
            for name, node in self.situation.nodes.items():
                if not all(other.topology_key in node.labels for other in constraints):
                    continue
                if constraint.node_affinity_policy == "Honor" and not matches_node(self.pod, node):
                    continue
                if constraint.node_taints_policy == "Honor" and untolerated_taints(self.pod, node):
                    continue
                domains[node.labels[constraint.topology_key]] += sum(
                    1 for other in self.situation.pods_on[name] if self._is_counted(other, requirements)
                )
            matches_itself = requirements is not None and all(
                requirement_holds(r, self.pod.labels) for r in requirements
            )
            self.spread.append((constraint, matches_itself, domains))

    def _is_counted(self, other: Pod, requirements: list[Requirement] | None) -> bool:
        # A selector without any requirement counts nobody, though it "matches" the pod itself: so it never refuses.
        if not requirements or other.namespace != self.pod.namespace or other.terminating:
            return False
        return all(requirement_holds(requirement, other.labels) for requirement in requirements)

    def refusals(self, node: Node) -> list[str]:
        """Every rule by which this node is no place for the pod, in the order of `RULES`."""
        others = self.situation.pods_on[node.name]
        checks = {
            "pods": self._too_many_pods(node, others),
            "resources": self._too_little_left(node),
            "node-affinity": not matches_node(self.pod, node),
            "taints": bool(untolerated_taints(self.pod, node)),
            "unschedulable": node.spec.unschedulable
            and not any(tolerates(t, _CORDON) for t in self.pod.spec.tolerations),
            "host-ports": any(
                ports_collide(mine, theirs) for mine in self.ports for other in others for theirs in host_ports(other)
            ),
            "pod-affinity": not self._affinity_holds(node),
            "pod-anti-affinity": any(
                (term.topology_key, node.labels.get(term.topology_key)) in self.kept_from
                for term in required_anti_affinity(self.pod)
            ),
            "anti-affinity-of-others": any(pair in self.unwelcome_in for pair in node.labels.items()),
            "topology-spread": not self._spread_holds(node),
            "volumes": not self._volumes_reach(node),
        }
        return [rule for rule in RULES if checks[rule]]

    def _too_many_pods(self, node: Node, others: Sequence[Pod]) -> bool:
        return len(others) + 1 > node_capacity(node).get("pods", 0)

    def _too_little_left(self, node: Node) -> bool:
        # A node that is already overcommitted refuses only those who ask for more of that resource.
        capacity, used = node_capacity(node), self.situation.used_on[node.name]
        return any(amount > capacity.get(name, 0) - used[name] for name, amount in self.requests.items() if amount > 0)

    def _affinity_holds(self, node: Node) -> bool:
        terms = required_affinity(self.pod)
        if not all(term.topology_key in node.labels for term in terms):
            return False
        if all((term.topology_key, node.labels[term.topology_key]) in self.drawn_to for term in terms):
            return True
        # The first of a group that wants to be together may go anywhere.
        namespaces = self.situation.namespaces
        return not self.drawn_to and all(term_covers(term, self.pod, self.pod, namespaces) for term in terms)

    def _spread_holds(self, node: Node) -> bool:
        for constraint, matches_itself, domains in self.spread:
            if constraint.topology_key not in node.labels:
                return False
            fewest = min(domains.values(), default=0)
            if len(domains) < (constraint.min_domains or 1):
                fewest = 0
            if domains[node.labels[constraint.topology_key]] + matches_itself - fewest > constraint.max_skew:
                return False
        return True

    def _volumes_reach(self, node: Node) -> bool:
        for volume in self.pod.spec.volumes:
            if volume.persistent_volume_claim is None:
                continue
            claim = self.situation.claims.get((self.pod.namespace, volume.persistent_volume_claim.claim_name))
            bound = self.situation.volumes.get(claim.spec.volume_name) if claim else None
            if bound is None:
                return False
            affinity = bound.spec.node_affinity
            if affinity and affinity.required and not node_selector_matches(affinity.required, node, with_fields=False):
                return False
            if not any(key in node.labels for key in _ZONE_LABELS):
                continue  # a cluster of one zone labels nothing
            for key in _ZONE_LABELS:
                # A regional volume names several zones in one label, with two underscores between them.
                if key in bound.labels and node.labels.get(key) not in bound.labels[key].split("__"):
                    return False
        return True


# ── judging a plan ───────────────────────────────────────────────────────────────────────────────────────────────────


class Placement(NamedTuple):
    pod: Pod
    node_name: str


class Violation(NamedTuple):
    pod: Pod
    node_name: str
    rule: str

    def __str__(self) -> str:
        return f"{self.pod.namespace}/{self.pod.name} on {self.node_name}: {self.rule}"


def after(before: Situation, placements: Sequence[Placement]) -> Situation:
    now = before.copy()
    for pod, node_name in placements:
        now.place(pod, node_name)
    return now


def violations(before: Situation, placements: Sequence[Placement]) -> list[Violation]:
    """What does not obey in the state after all placements; `before` holds the new nodes too, with their daemons."""
    final = after(before, placements)
    wrong = [Violation(pod, name, "gates") for pod, name in placements if pod.spec.scheduling_gates]
    for pod, name in placements:
        node = final.nodes[name]
        final.take(pod, name)
        broken = final.ask(pod).refusals(node)
        final.place(pod, name)
        if "pod-affinity" in broken and "pod-affinity" not in final.ask(pod).refusals(node):
            broken.remove("pod-affinity")
        wrong += [Violation(pod, name, rule) for rule in broken]
    return wrong


def illegal_steps(before: Situation, placements: Sequence[Placement]) -> list[Violation]:
    """The placements, in the order given, that kube-scheduler would not have made at that moment."""
    now = before.copy()
    wrong = []
    for pod, name in placements:
        wrong += [Violation(pod, name, rule) for rule in now.ask(pod).refusals(now.nodes[name])]
        now.place(pod, name)
    return wrong
