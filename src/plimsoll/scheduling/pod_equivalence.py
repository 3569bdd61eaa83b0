"""Groups pods into equivalence classes, and classes into groups of equal requests.

A *class* is everything about a pod that decides where it may run or how it affects others, except amounts: namespace,
labels, selectors, tolerations, affinity, spread, host ports, claims, gates, priority. A *shape* is the requested
amounts. They are separate because they vary independently: a hundred classes of thirty shapes are three thousand
groups, and what is computed once per class serves all of its groups.

Classes are found by the bytes of the pod's own fields, encoded by msgspec in less than a microsecond per pod. No pod is
compared with another, and object identity does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import msgspec

from plimsoll.kube.types.core import (
    Affinity,
    Container,
    NodeSelector,
    Pod,
    PodAffinityTerm,
    PodSpec,
    PreferredNodeTerm,
    Toleration,
)
from plimsoll.kube.types.meta import Labels
from plimsoll.kube.types.quantity import Quantity
from plimsoll.scheduling.class_index import ClassIndex
from plimsoll.scheduling.model import Constraint, Unschedulable
from plimsoll.scheduling.pod_requests import PODS, effective_requests, resized_spec
from plimsoll.scheduling.rules import Expressions, HostPort, expressions_match, narrowed, selector_expressions

# Below this priority a pod triggers no scale-up: Cluster Autoscaler's convention for pods that only use spare capacity.
LOWEST_SCALE_UP_PRIORITY = -10

MIRROR = "kubernetes.io/config.mirror"  # set by the kubelet on mirrors of static pods

Shape: TypeAlias = tuple[tuple[int, int], ...]  # (index of the resource, amount), ascending, amounts above zero

_encode = msgspec.msgpack.Encoder().encode


class PodIdentity(NamedTuple):
    """What selectors match of a pod."""

    namespace: str
    labels: Labels


class AffinityTerm(NamedTuple):
    """One required or preferred term of pod affinity or anti-affinity."""

    topology_key: str
    namespaces: frozenset[str]
    namespace_selector: Expressions | None  # None: only `namespaces`; empty: every namespace
    selector: Expressions | None

    def covers(self, identity: PodIdentity, namespace_labels: Labels) -> bool:
        """Whether the term matches such pods. A namespace whose labels are unknown has none."""
        return (
            identity.namespace in self.namespaces or expressions_match(self.namespace_selector, namespace_labels)
        ) and expressions_match(self.selector, identity.labels)


class SpreadConstraint(NamedTuple):
    """One topology spread constraint. It counts pods of the pod's own namespace only."""

    topology_key: str
    max_skew: int
    min_domains: int
    selector: Expressions | None
    self_match: bool
    honor_affinity: bool
    honor_taints: bool

    @property
    def counts_pods(self) -> bool:
        """An empty selector counts no pod although it matches the pod itself, as in kube-scheduler."""
        return bool(self.selector)


class PodClaim(NamedTuple):
    name: str
    ephemeral: bool  # created for this pod by a controller, possibly not yet


class Preference(NamedTuple):
    """A preferred term of pod affinity (positive weight) or anti-affinity (negative weight)."""

    weight: int
    term: AffinityTerm


class PodClass(msgspec.Struct, frozen=True, eq=False):
    """What all pods of a class have in common. Compared by identity: there is one object per class."""

    index: int
    identity_index: int
    identity: PodIdentity
    node_selector: Labels
    required: NodeSelector | None
    preferred_nodes: tuple[PreferredNodeTerm, ...]
    tolerations: tuple[Toleration, ...]
    affinity: tuple[AffinityTerm, ...]
    anti_affinity: tuple[AffinityTerm, ...]
    preferences: tuple[Preference, ...]
    spread: tuple[SpreadConstraint, ...]  # DoNotSchedule
    soft_spread: tuple[SpreadConstraint, ...]  # ScheduleAnyway
    ports: tuple[HostPort, ...]
    claims: tuple[PodClaim, ...]
    gates: tuple[str, ...]
    unmodelled: Unschedulable | None  # a requirement that the engine does not model: no node is called feasible
    priority: int
    terminating: bool  # uses its node's resources, but a spread does not count it
    node_bound: bool  # a DaemonSet pod or a mirror of a static pod: it ends with its node and is never moved

    @property
    def namespace(self) -> str:
        return self.identity.namespace

    @property
    def unconstrained(self) -> bool:
        """No constraint beyond amounts, node labels and taints."""
        return not (self.affinity or self.anti_affinity or self.spread or self.ports)

    @property
    def triggers_scale_up(self) -> bool:
        """Whether a node is added for its pods where there is no room."""
        return self.priority >= LOWEST_SCALE_UP_PRIORITY

    @property
    def has_preferences(self) -> bool:
        return bool(self.preferred_nodes or self.preferences or self.soft_spread)

    def selectors(self) -> Iterator[Expressions | None]:
        """Yield the selectors of all its inter-pod rules."""
        for term in (*self.affinity, *self.anti_affinity, *(preference.term for preference in self.preferences)):
            yield term.selector
        for spread in (*self.spread, *self.soft_spread):
            yield spread.selector


class _AffinityTerms(NamedTuple):
    """The part of a class that comes from the spec alone; shared by classes that differ only in labels."""

    required: NodeSelector | None
    preferred_nodes: tuple[PreferredNodeTerm, ...]
    affinity: tuple[PodAffinityTerm, ...]
    anti_affinity: tuple[PodAffinityTerm, ...]
    preferences: tuple[tuple[int, PodAffinityTerm], ...]


_NO_AFFINITY_TERMS = _AffinityTerms(None, (), (), (), ())


def _affinity_terms(affinity: Affinity | None) -> _AffinityTerms:
    if affinity is None:
        return _NO_AFFINITY_TERMS
    node, pod, anti = affinity.node_affinity, affinity.pod_affinity, affinity.pod_anti_affinity
    preferences = [(p.weight, p.pod_affinity_term) for p in pod.preferred] if pod else []
    preferences += [(-p.weight, p.pod_affinity_term) for p in anti.preferred] if anti else []
    return _AffinityTerms(
        node.required if node else None,
        node.preferred if node else (),
        pod.required if pod else (),
        anti.required if anti else (),
        tuple(preferences),
    )


_Requests: TypeAlias = tuple[tuple[str, Quantity], ...]
_Amounts: TypeAlias = tuple[tuple[Container, ...], tuple[Container, ...], Any, Any]  # the inputs of shape and ports


class _CachedIndexes(NamedTuple):
    """The last pod of a key with more than one plain container. Replicas are equal, so one comparison finds their
    group.
    """

    amounts: _Amounts
    class_index: int
    shape_index: int


class PodClasses:
    """All classes, identities, shapes and resource names met so far, each identified by an index."""

    def __init__(self) -> None:
        self.classes: list[PodClass] = []
        self.index = ClassIndex(self.classes)
        self.identities: list[PodIdentity] = []
        self.shapes: list[Shape] = []
        self.resources: list[str] = ["cpu", "memory", PODS]  # every node has the first three
        self._resource_index = {name: index for index, name in enumerate(self.resources)}
        self._plain_class: dict[bytes, int] = {}  # pods with one plain container
        self._seen: dict[bytes, _CachedIndexes] = {}  # other pods
        self._class_index: dict[tuple[bytes, tuple[HostPort, ...], bool], int] = {}
        self._identity_index: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
        self._shape_index: dict[Shape, int] = {}
        self._shape_of_requests: dict[_Requests, int] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs; it never sees the original pods."""
        return {name: getattr(self, name) for name in ("classes", "identities", "shapes", "resources")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]
        for name, value in state.items():
            setattr(self, name, value)
        self.index = ClassIndex(self.classes)
        self._resource_index = {name: index for index, name in enumerate(self.resources)}
        self._shape_index = {shape: index for index, shape in enumerate(self.shapes)}

    def of(self, pod: Pod) -> tuple[int, int]:
        """Return the indexes of the pod's class and shape."""
        (class_index,), (shape_index,) = self.of_all((pod,))
        return class_index, shape_index

    def of_all(self, pods: Iterable[Pod]) -> tuple[list[int], list[int]]:
        """By pod: the indexes of its class and shape. Called with thousands of pods: avoids every unnecessary call."""
        class_of: list[int] = []
        shape_of: list[int] = []
        add_class, add_shape = class_of.append, shape_of.append
        plain_classes, shapes_of_requests, seen_pods = self._plain_class, self._shape_of_requests, self._seen
        for pod in pods:
            meta, spec = pod.metadata, pod.spec
            if meta.generation > 1:  # its spec has changed: a resize may be under way
                spec = resized_spec(pod)
            affinity = spec.affinity
            node_bound = MIRROR in meta.annotations
            for owner in meta.owner_references:
                if owner.controller and owner.kind == "DaemonSet":
                    node_bound = True
                    if spec.node_name and affinity is not None:
                        # Each DaemonSet pod selects its own node. Once bound it never moves, so only its effect on
                        # others matters.
                        affinity = Affinity(pod_anti_affinity=affinity.pod_anti_affinity)
            claims = None
            for volume in spec.volumes:
                if volume.persistent_volume_claim is not None or volume.ephemeral is not None:
                    claims = _claims(pod)
                    break
            key = _encode(
                (
                    meta.namespace,
                    meta.labels,
                    spec.node_selector,
                    affinity,
                    spec.tolerations,
                    spec.topology_spread_constraints,
                    spec.priority,
                    spec.scheduling_gates,
                    spec.resource_claims,
                    spec.unknown_fields,
                    spec.host_network and spec.host_users is False,
                    claims,
                    node_bound,
                    meta.deletion_timestamp is not None,
                )
            )
            containers = spec.containers
            if (
                len(containers) == 1
                and not (spec.init_containers or spec.overhead or spec.resources)
                and not ((only := containers[0]).ports or only.restart_policy_rules)
            ):
                requests = tuple(only.resources.requests.items())
                shape = shapes_of_requests.get(requests)
                if shape is None:
                    shape = shapes_of_requests[requests] = self._shape(spec)
                plain_class = plain_classes.get(key)
                if plain_class is None:
                    plain_class = self._class(
                        key, pod, affinity, (), claims or (), node_bound=node_bound, restarts=False
                    )
                    plain_classes[key] = plain_class
                add_class(plain_class)
                add_shape(shape)
                continue
            amounts = (containers, spec.init_containers, spec.overhead, spec.resources)
            seen = seen_pods.get(key)
            if seen is None or seen.amounts != amounts:
                class_index = self._class(
                    key,
                    pod,
                    affinity,
                    _host_ports(spec),
                    claims or (),
                    node_bound=node_bound,
                    restarts=_restarts_all(spec),
                )
                seen = seen_pods[key] = _CachedIndexes(amounts, class_index, self._shape(spec))
            add_class(seen.class_index)
            add_shape(seen.shape_index)
        return class_of, shape_of

    def _class(
        self,
        key: bytes,
        pod: Pod,
        affinity: Affinity | None,
        ports: tuple[HostPort, ...],
        claims: tuple[PodClaim, ...],
        *,
        node_bound: bool,
        restarts: bool,
    ) -> int:
        # `restarts` is not in `key`, which is built for every pod.
        index = self._class_index.get((key, ports, restarts))
        if index is None:
            index = self._class_index[key, ports, restarts] = len(self.classes)
            self.classes.append(
                self._make(pod, index, affinity, ports, claims, node_bound=node_bound, restarts=restarts)
            )
        return index

    def resource(self, name: str) -> int:
        """Return the index of a resource; a new name gets the next one."""
        index = self._resource_index.get(name)
        if index is None:
            index = self._resource_index[name] = len(self.resources)
            self.resources.append(name)
        return index

    def _shape(self, spec: PodSpec) -> int:
        return self.shape(
            tuple(sorted((self.resource(name), amount) for name, amount in effective_requests(spec).items()))
        )

    def shape(self, shape: Shape) -> int:
        """Return the index of a shape; a new one gets the next."""
        index = self._shape_index.setdefault(shape, len(self.shapes))
        if index == len(self.shapes):
            self.shapes.append(shape)
        return index

    def _identity(self, namespace: str, labels: Labels) -> int:
        key = (namespace, tuple(sorted(labels.items())))
        index = self._identity_index.setdefault(key, len(self.identities))
        if index == len(self.identities):
            self.identities.append(PodIdentity(namespace, labels))
        return index

    def _make(
        self,
        pod: Pod,
        index: int,
        affinity: Affinity | None,
        ports: tuple[HostPort, ...],
        claims: tuple[PodClaim, ...],
        *,
        node_bound: bool,
        restarts: bool,
    ) -> PodClass:
        meta, spec = pod.metadata, pod.spec
        affinity_terms = _affinity_terms(affinity)
        identity = self._identity(meta.namespace, meta.labels)

        def term(given: PodAffinityTerm) -> AffinityTerm:
            own = not given.namespaces and given.namespace_selector is None
            return AffinityTerm(
                given.topology_key,
                frozenset((meta.namespace,) if own else given.namespaces),
                selector_expressions(given.namespace_selector),
                narrowed(
                    selector_expressions(given.label_selector),
                    meta.labels,
                    given.match_label_keys,
                    given.mismatch_label_keys,
                ),
            )

        hard_spread, soft_spread = [], []
        for given in spec.topology_spread_constraints:
            selector = narrowed(selector_expressions(given.label_selector), meta.labels, given.match_label_keys)
            spread = SpreadConstraint(
                given.topology_key,
                given.max_skew,
                given.min_domains or 1,
                selector,
                expressions_match(selector, meta.labels),
                given.node_affinity_policy != "Ignore",
                given.node_taints_policy == "Honor",
            )
            if given.when_unsatisfiable == "DoNotSchedule":
                hard_spread.append(spread)
            elif given.when_unsatisfiable == "ScheduleAnyway":
                soft_spread.append(spread)
        return PodClass(
            index=index,
            identity_index=identity,
            identity=self.identities[identity],
            node_selector=spec.node_selector,
            required=affinity_terms.required,
            preferred_nodes=affinity_terms.preferred_nodes,
            tolerations=spec.tolerations,
            affinity=tuple([term(t) for t in affinity_terms.affinity]),
            anti_affinity=tuple([term(t) for t in affinity_terms.anti_affinity]),
            preferences=tuple([Preference(weight, term(t)) for weight, t in affinity_terms.preferences]),
            spread=tuple(hard_spread),
            soft_spread=tuple(soft_spread),
            ports=ports,
            claims=claims,
            gates=tuple([gate.name for gate in spec.scheduling_gates]),
            unmodelled=_unmodelled(spec, restarts=restarts),
            priority=spec.priority,
            terminating=meta.deletion_timestamp is not None,
            node_bound=node_bound,
        )


def _claims(pod: Pod) -> tuple[PodClaim, ...]:
    """Return the claims that the pod mounts; names of ephemeral claims derive from the pod's name."""
    names = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            names.append(PodClaim(volume.persistent_volume_claim.claim_name, ephemeral=False))
        elif volume.ephemeral is not None:
            names.append(PodClaim(f"{pod.name}-{volume.name}", ephemeral=True))
    return tuple(names)


def _host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """Return host ports that the pod uses while it runs; sidecars count, other init containers do not."""
    found = {
        HostPort(port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)  # noqa: S104 - a wildcard in data
        for container in (*spec.containers, *(c for c in spec.init_containers if c.restart_policy == "Always"))
        for port in container.ports
        if port.host_port > 0
    }
    return tuple(sorted(found))


def _restarts_all(spec: PodSpec) -> bool:
    """Whether a container restarts the whole pod, which requires a declared feature of the node."""
    return any(
        rule.action == "RestartAllContainers"
        for container in (*spec.containers, *spec.init_containers)
        for rule in container.restart_policy_rules
    )


def _unmodelled(spec: PodSpec, *, restarts: bool) -> Unschedulable | None:
    """Return the first requirement of a pod that kube-scheduler enforces and this engine does not model.

    A pod with such a requirement is never placed or moved: calling a node feasible that kube-scheduler refuses would end
    with a Pending pod.
    """
    if spec.resource_claims:
        names = ", ".join(claim.resource_claim_name or claim.name for claim in spec.resource_claims)
        return Unschedulable(
            Constraint.DEVICE_CLAIM, f"the pod uses resource claims ({names}); device allocation is not modelled"
        )
    if spec.unknown_fields:
        field = ", ".join(f"spec.{name}" for name in spec.unknown_fields)
    elif spec.host_network and spec.host_users is False:
        field = "spec.hostUsers with spec.hostNetwork (requires a declared node feature)"
    elif restarts:
        field = "spec.containers[].restartPolicyRules with RestartAllContainers (requires a declared node feature)"
    else:
        return None
    return Unschedulable(Constraint.UNKNOWN_CONSTRAINT, f"{field} may constrain scheduling and is not modelled")
