"""Counts the rule violations of a finished plan, once for equivalent pods.

The checker of the tests examines one pod after the other and compares it with all others: obvious, and an hour's work
for 20,000 pods. Here the same rules (`tests.scheduling.rules`) are applied to pods that differ only in name as one
kind. A test ensures that both agree.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from plimsoll.kube.codec import encode
from plimsoll.kube.types.core import Node, Pod, PodAffinityTerm, Taint, TopologySpreadConstraint
from plimsoll.kube.types.meta import Requirement
from tests.scheduling.checker import Placement
from tests.scheduling.requests import node_capacity, requests_of
from tests.scheduling.rules import (
    hard_spread,
    host_ports,
    matches_node,
    required_affinity,
    required_anti_affinity,
    requirement_holds,
    spread_requirements,
    term_covers,
    tolerates,
    untolerated_taints,
)

_CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_Domain = tuple[str, str]  # topology key, value


class _Kind:
    """Pods that only the resource rule distinguishes, and how many of them are on each node."""

    def __init__(self, example: Pod) -> None:
        if host_ports(example) or example.spec.volumes or example.spec.scheduling_gates or example.terminating:
            raise ValueError(f"pod {example.name}: host ports, volumes, gates and leaving pods are not judged here")
        self.example = example
        self.on: Counter[str] = Counter()


Places = Iterator[tuple[_Kind, str]]  # a kind, and a node on which pods of that kind violate a rule


def _labels_asked_for(pod: Pod) -> set[str]:
    """Return the labels that selectors of the pod use."""
    terms: list[PodAffinityTerm | TopologySpreadConstraint] = [*required_affinity(pod), *required_anti_affinity(pod)]
    terms += hard_spread(pod)
    keys: set[str] = set()
    for term in terms:
        keys.update(term.match_label_keys)
        keys.update(term.mismatch_label_keys if isinstance(term, PodAffinityTerm) else ())
        if term.label_selector is not None:
            keys.update(term.label_selector.match_labels)
            keys.update(requirement.key for requirement in term.label_selector.match_expressions)
    return keys


def broken_rules(nodes: Iterable[Node], placements: Sequence[Placement]) -> Counter[str]:
    """Return how many pods violate each rule in the final state."""
    return _Audit(nodes, placements).run()


class _Audit:
    def __init__(self, nodes: Iterable[Node], placements: Sequence[Placement]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.placements = placements
        kinds: dict[bytes, _Kind] = {}
        seen = {key for pod, _ in placements for key in _labels_asked_for(pod)}
        for pod, name in placements:
            spec = pod.spec
            rules = (spec.affinity, spec.topology_spread_constraints, spec.node_selector, spec.tolerations)
            labels = {key: value for key, value in pod.labels.items() if key in seen}
            looks = encode((pod.namespace, labels, *rules))
            if looks not in kinds:
                kinds[looks] = _Kind(pod)
            kinds[looks].on[name] += 1
        self.kinds = list(kinds.values())

    def run(self) -> Counter[str]:
        broken = self._resources()
        # A pod violates a rule once, whichever of its terms fails: hence places, not sums.
        places: dict[str, set[tuple[_Kind, str]]] = defaultdict(set)
        for kind in self.kinds:
            for rule, places_of_kind in (
                ("node-affinity", self._outside_affinity(kind)),
                ("taints", self._tainted(kind)),
                ("unschedulable", self._cordoned(kind)),
                ("pod-affinity", self._alone(kind)),
                ("pod-anti-affinity", self._too_near(kind)),
                ("anti-affinity-of-others", self._unwelcome(kind)),
                ("topology-spread", self._uneven(kind)),
            ):
                places[rule].update(places_of_kind)
        for rule, found in places.items():
            broken[rule] += sum(kind.on[name] for kind, name in found)
        return +broken

    # ── one node ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _resources(self) -> Counter[str]:
        broken: Counter[str] = Counter()
        used: dict[str, Counter[str]] = {name: Counter() for name in self.nodes}
        for pod, name in self.placements:
            used[name].update(requests_of(pod))
            used[name]["pods"] += 1
        capacity = {name: node_capacity(node) for name, node in self.nodes.items()}
        for pod, name in self.placements:
            asked = [resource for resource, amount in requests_of(pod).items() if amount > 0]
            broken["resources"] += any(used[name][what] > capacity[name].get(what, 0) for what in asked)
            broken["pods"] += used[name]["pods"] > capacity[name].get("pods", 0)
        return broken

    def _outside_affinity(self, kind: _Kind) -> Places:
        return ((kind, name) for name in kind.on if not matches_node(kind.example, self.nodes[name]))

    def _tainted(self, kind: _Kind) -> Places:
        return ((kind, name) for name in kind.on if untolerated_taints(kind.example, self.nodes[name]))

    def _cordoned(self, kind: _Kind) -> Places:
        if any(tolerates(toleration, _CORDON) for toleration in kind.example.spec.tolerations):
            return
        yield from ((kind, name) for name in kind.on if self.nodes[name].spec.unschedulable)

    # ── other pods ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _alone(self, kind: _Kind) -> Places:
        terms = required_affinity(kind.example)
        company: set[_Domain] = set()
        for other in self.kinds if terms else ():
            if all(term_covers(term, kind.example, other.example, {}) for term in terms):
                company.update(*(self._domains(term.topology_key, other) for term in terms))
        for name in kind.on if terms else ():
            if any(self._domain(term.topology_key, name) not in company for term in terms):
                yield kind, name

    def _too_near(self, kind: _Kind) -> Places:
        """Yield pods of the kind with a pod nearby that matches their anti-affinity."""
        for term in required_anti_affinity(kind.example):
            near: Counter[_Domain] = Counter()
            for other in self._covered(kind, term):
                near += self._domains(term.topology_key, other)
            itself = term_covers(term, kind.example, kind.example, {})
            for name in kind.on:
                domain = self._domain(term.topology_key, name)
                if domain is not None and near[domain] > itself:
                    yield kind, name

    def _unwelcome(self, kind: _Kind) -> Places:
        """Yield pods of any kind near one of this kind whose anti-affinity matches them."""
        for term in required_anti_affinity(kind.example):
            owners = self._domains(term.topology_key, kind)
            for other in self._covered(kind, term):
                for name in other.on:
                    domain = self._domain(term.topology_key, name)
                    if domain is not None and owners[domain] > (other is kind):
                        yield other, name

    def _covered(self, kind: _Kind, term: PodAffinityTerm) -> list[_Kind]:
        return [other for other in self.kinds if term_covers(term, kind.example, other.example, {})]

    def _domain(self, key: str, name: str) -> _Domain | None:
        value = self.nodes[name].labels.get(key)
        return None if value is None else (key, value)

    def _domains(self, key: str, kind: _Kind) -> Counter[_Domain]:
        found: Counter[_Domain] = Counter()
        for name, pods in kind.on.items():
            domain = self._domain(key, name)
            if domain is not None:
                found[domain] += pods
        return found

    # ── spread ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _uneven(self, kind: _Kind) -> Places:
        pod = kind.example
        for constraint in hard_spread(pod):
            requirements = spread_requirements(constraint, pod)
            matches = requirements is not None and all(requirement_holds(r, pod.labels) for r in requirements)
            eligible = self._eligible(pod, constraint)
            counts = self._counted(pod, constraint.topology_key, requirements, eligible)
            lowest = sorted(counts.values())[:2]
            for name in kind.on:
                labels = self.nodes[name].labels
                value = labels.get(constraint.topology_key, "")
                # The pod is removed before it is checked: then its own domain may be the lowest.
                here = counts.get(value, 0) - (matches and bool(requirements) and name in eligible)
                elsewhere = lowest[1:] if value in counts and lowest[0] == counts[value] else lowest[:1]
                fewest = min([*elsewhere, *([here] if value in counts else [])], default=0)
                if len(counts) < (constraint.min_domains or 1):
                    fewest = 0
                if constraint.topology_key not in labels or here + matches - fewest > constraint.max_skew:
                    yield kind, name

    def _eligible(self, pod: Pod, constraint: TopologySpreadConstraint) -> set[str]:
        keys = [other.topology_key for other in hard_spread(pod)]
        return {
            name
            for name, node in self.nodes.items()
            if all(key in node.labels for key in keys)
            and (constraint.node_affinity_policy != "Honor" or matches_node(pod, node))
            and (constraint.node_taints_policy != "Honor" or not untolerated_taints(pod, node))
        }

    def _counted(
        self, pod: Pod, key: str, requirements: list[Requirement] | None, eligible: set[str]
    ) -> dict[str, int]:
        """By domain: the pods that a spread counts."""
        counts = dict.fromkeys((self.nodes[name].labels[key] for name in eligible), 0)
        for other in self.kinds if requirements else ():
            labels = other.example.labels
            if other.example.namespace != pod.namespace:
                continue
            if all(requirement_holds(requirement, labels) for requirement in requirements or ()):
                for name in other.on.keys() & eligible:
                    counts[self.nodes[name].labels[key]] += other.on[name]
        return counts
