"""Decisions: what a controller wants done now, why, which blockers stop it, and when to reconcile again.

A `Decision` is data. The operator passes it to the actuator (`actuator.py`), `explain` prints it, `simulate` runs it and tests
compare it, so all of them show the same thing. A controller holds no client and awaits nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

from msgspec import Struct, field

from plimsoll.kube.cache.store import View
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import Key, Resource
from plimsoll.providers.protocol import MachineRequest


class Reason(Struct, frozen=True):
    """Why: a code to search for and a sentence to read."""

    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class Blocker(Struct, frozen=True):
    """Something that stops an action, and until when, if that is known."""

    code: str
    message: str
    until: datetime | None = None


class Ref(Struct, frozen=True):
    """A reference to exactly one object. It carries the UID because a name may be reused."""

    resource: Resource[Any]
    namespace: str
    name: str
    uid: str
    resource_version: str = ""

    @classmethod
    def to(cls, resource: Resource[Any], obj: KubeObject) -> Ref:
        meta = obj.metadata
        return cls(resource, meta.namespace, meta.name, meta.uid, meta.resource_version)

    @property
    def key(self) -> Key:
        return Key(self.resource.kind, self.namespace, self.name)

    def __str__(self) -> str:
        return str(self.key)


class Counter(Struct, frozen=True):
    """One increment of a Prometheus counter."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)


class Histogram(Struct, frozen=True):
    """One observation of a Prometheus histogram."""

    name: str
    seconds: float
    labels: Mapping[str, str] = field(default_factory=dict)


class Event(Struct, frozen=True):
    """A Kubernetes event on an object, as `kubectl describe` shows it."""

    regarding: Ref
    reason: str
    message: str
    type: Literal["Normal", "Warning"] = "Normal"
    action: str = ""
    counts: tuple[Counter | Histogram, ...] = ()  # counted each time the event is recorded


class Patch(Struct, frozen=True):
    """Change part of an object by a JSON merge patch (`body` a mapping) or a JSON patch (`body` a list of operations).

    A merge patch without lists may be `strategic` if the kind is built in, which costs the API server less. The patch carries the
    target's UID, so it never changes another object of the same name. With `if_unchanged` it also carries the resourceVersion,
    and the API server refuses it if the object changed after the view saw it. `brief`: nothing reads the changed object, so the
    API server returns only its metadata.
    """

    target: Ref
    body: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    why: Reason
    form: Literal["merge", "strategic", "json"] = "merge"
    if_unchanged: bool = True
    subresource: str = ""
    event: Event | None = None
    brief: bool = False


class Create(Struct, frozen=True):
    """Create an object. Its name follows from its purpose, so that creating it twice yields one object."""

    resource: Resource[Any]
    namespace: str
    name: str
    body: Mapping[str, Any]
    why: Reason
    event: Event | None = None


class Delete(Struct, frozen=True):
    """Delete an object by UID. The actuator refuses to delete pods: they are evicted."""

    target: Ref
    why: Reason
    event: Event | None = None


class DisruptionLimits(Struct, frozen=True):
    """How many pods may be disrupted within any rolling `period`."""

    per_workload: int
    per_cluster: int
    period: timedelta


class Evict(Struct, frozen=True):
    """Evict a pod through the Eviction API, within every budget that covers it."""

    pod: Ref
    workload: Key  # the topmost controller; its disruption limit counts this eviction
    why: Reason
    may_be_last: bool = False  # the user accepts that no replica is ready until the replacement is
    within: DisruptionLimits | None = None  # limits for this kind of eviction, in addition to the general ones
    event: Event | None = None


class Transaction(Struct, frozen=True):
    """A sequence of requests in which each follows from the reply to the one before.

    `step` takes the state and a reply and returns the next state and request, or an `End` (see `transaction.py`); it is
    deterministic and does no I/O. The actuator runs it and carries out its writes like all others. `ended` receives the last
    state, so that the controller can keep what it learned.
    """

    target: Ref  # the object that the transaction is about
    start: Any
    step: Callable[[Any, Any], tuple[Any, Any]]
    why: Reason
    ended: Callable[[Any], None] = lambda _: None
    event: Event | None = None


class CreateMachine(Struct, frozen=True):
    """Order a machine from a provider, under an idempotency key that was stored before: ordering twice yields one machine."""

    target: Ref  # the object that represents the machine
    provider: str
    request: MachineRequest
    why: Reason
    event: Event | None = None


class DeleteMachine(Struct, frozen=True):
    """Delete a machine at its provider, by the provider's own id."""

    target: Ref
    provider: str
    machine_id: str
    why: Reason
    event: Event | None = None


Action: TypeAlias = Patch | Create | Delete | Evict | Transaction | CreateMachine | DeleteMachine


class Gauge(Struct, frozen=True):
    """The value of a Prometheus gauge. The series is removed when the key's next decision no longer has it."""

    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


class Problem(Struct, frozen=True):
    """Invalid input on an object. It is reported once per change, not once per reconcile."""

    regarding: Ref
    code: str  # also the reason of the Warning event
    message: str
    counts: tuple[Counter, ...] = ()  # counted whenever it is reported


class Decision(Struct, frozen=True, kw_only=True):
    """Everything that a controller decides for one key. A controller adds fields in a subclass, for `explain` to show."""

    reason: Reason
    actions: tuple[Action, ...] = ()
    in_order: bool = True  # False: the actions are independent and may run concurrently
    blockers: tuple[Blocker, ...] = ()
    requeue_after: timedelta | None = None
    forget: bool = False  # the key's object is gone: drop what is kept about it, and do not requeue it
    events: tuple[Event, ...] = ()
    problems: tuple[Problem, ...] = ()
    gauges: tuple[Gauge, ...] = ()
    counts: tuple[Counter, ...] = ()  # counted at each such decision


class Permission(Struct, frozen=True):
    """One permission that a controller needs. The RBAC of the chart and the manifests is generated from these."""

    group: str
    resource: str  # with its subresource: "pods/eviction"
    verb: str
    namespace: str = ""  # the only namespace in which it is needed; empty: wherever the operator watches
    cluster_wide: bool = (
        False  # set for a cluster-scoped kind that is not watched; for watched kinds the scope is known
    )


class Controller(Protocol):
    """What the operator runs. `keys` and `decide` are synchronous, deterministic and do no I/O."""

    name: ClassVar[str]

    @property
    def permissions(self) -> tuple[Permission, ...]:
        """What it does beyond listing and watching its kinds. Reading one object live (`get`) is a permission, too."""
        ...

    @property
    def watches(self) -> tuple[Resource[Any], ...]:
        """The kinds that its decisions read."""
        ...

    def keys(self, resource: Resource[Any], changed: KubeObject, view: View) -> Iterable[Key]:
        """The keys that a change concerns. It is called with the old and with the new state of an object."""
        ...

    def decide(self, key: Key, view: View, now: datetime) -> Decision: ...
