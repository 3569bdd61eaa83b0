"""What a controller says: what to do now, why, what stands in the way, and when to look again.

A `Decision` is data. The operator hands it to the door (`act.py`), `explain` prints it, `simulate` runs it, tests
compare it: nothing is explained twice. A controller holds no client and awaits nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

from msgspec import Struct, field

from plimsoll.kube.cache.store import View
from plimsoll.kube.types.core import KubeObject
from plimsoll.kube.types.resources import Key, Resource
from plimsoll.providers.protocol import MachineRequest


class Reason(Struct, frozen=True):
    """Why, as a code that people can search for and as a sentence that they can read."""

    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class Blocker(Struct, frozen=True):
    """What stands in the way, and until when if that is known."""

    code: str
    message: str
    until: datetime | None = None


class Ref(Struct, frozen=True):
    """Exactly one object, past or present: a name alone could be someone else's by now."""

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
    """Something that happened once, for a counter."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)


class Histogram(Struct, frozen=True):
    """How long something took that is over now, for a histogram."""

    name: str
    seconds: float
    labels: Mapping[str, str] = field(default_factory=dict)


class Event(Struct, frozen=True):
    """An event on an object, for people who read `kubectl describe`."""

    regarding: Ref
    reason: str
    message: str
    type: Literal["Normal", "Warning"] = "Normal"
    action: str = ""
    counts: tuple[Counter | Histogram, ...] = ()  # counted whenever it is told


class Patch(Struct, frozen=True):
    """Change part of an object by a JSON merge patch (`body` a mapping) or a JSON patch (`body` a list of operations).

    A merge patch without lists of a kind that is built in may be `strategic`, which costs the API server less.
    The patch carries the target's UID, so that it never lands on a namesake. With `if_unchanged` it carries the
    resourceVersion too and is refused if anyone has written since the view saw the object. `brief`: nobody looks at what
    the object became, so that the API server need not send it.
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
    """Make an object under a name that follows from the need: done twice, it is still one object."""

    resource: Resource[Any]
    namespace: str
    name: str
    body: Mapping[str, Any]
    why: Reason
    event: Event | None = None


class Delete(Struct, frozen=True):
    """Delete an object by UID. Pods are never deleted, they are evicted: the door refuses."""

    target: Ref
    why: Reason
    event: Event | None = None


class DisruptionLimits(Struct, frozen=True):
    """How much may be disrupted within any stretch of `period`."""

    per_workload: int
    per_cluster: int
    period: timedelta


class Evict(Struct, frozen=True):
    """Ask a pod to leave through the Eviction API, within every budget that covers it."""

    pod: Ref
    workload: Key  # whose limit of disruptions this counts against: the topmost controller
    why: Reason
    may_be_last: bool = False  # the user allows that nobody is ready until the replacement is
    within: DisruptionLimits | None = None  # limits for this kind of eviction, beside those for all
    event: Event | None = None


class Transaction(Struct, frozen=True):
    """Several requests, each of which follows from the reply to the one before it.

    `step` is a pure function of the state and a reply (see `conversation.py`) that says what to ask next, or how it ended. The
    door runs it and carries out its writes like all others. `ended` is given the last state, so that the controller can
    remember what it learned.
    """

    target: Ref  # what the conversation is about
    start: Any
    step: Callable[[Any, Any], tuple[Any, Any]]
    why: Reason
    ended: Callable[[Any], None] = lambda _: None
    event: Event | None = None


class CreateMachine(Struct, frozen=True):
    """Order a machine from a provider, under a key that was written down before: asked twice, it is still one machine."""

    target: Ref  # the object that stands for the machine
    provider: str
    request: MachineRequest
    why: Reason
    event: Event | None = None


class DeleteMachine(Struct, frozen=True):
    """Give a machine back to its provider, for good, named by the provider's own id."""

    target: Ref
    provider: str
    machine_id: str
    why: Reason
    event: Event | None = None


Action: TypeAlias = Patch | Create | Delete | Evict | Transaction | CreateMachine | DeleteMachine


class Gauge(Struct, frozen=True):
    """The value of a gauge as this decision saw it; gone when the next decision for the key no longer names it."""

    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


class Problem(Struct, frozen=True):
    """Something a person wrote that cannot be followed: reported once per change, not once per look at it."""

    regarding: Ref
    code: str  # also the reason of the Warning event
    message: str
    counts: tuple[Counter, ...] = ()  # counted whenever it is reported


class Decision(Struct, frozen=True, kw_only=True):
    """The whole answer for one key. A controller adds fields in a subclass: what is shown is what was decided."""

    reason: Reason
    actions: tuple[Action, ...] = ()
    in_order: bool = True  # False: the actions are independent and may be under way together
    blockers: tuple[Blocker, ...] = ()
    requeue_after: timedelta | None = None
    forget: bool = False  # the key's object is gone: nothing is remembered of it, and nobody looks again by himself
    events: tuple[Event, ...] = ()
    problems: tuple[Problem, ...] = ()
    gauges: tuple[Gauge, ...] = ()
    counts: tuple[Counter, ...] = ()  # counted whenever it is decided so


class Permission(Struct, frozen=True):
    """One thing a controller does to the API server; the chart's RBAC is generated from these."""

    group: str
    resource: str  # with its subresource: "pods/eviction"
    verb: str
    namespace: str = ""  # the only one in which it is needed; empty: wherever the operator watches
    cluster_wide: bool = False  # a kind without namespaces that no view holds; of those that one holds it is known


class Controller(Protocol):
    """What the operator runs. `keys` and `decide` are synchronous and pure."""

    name: ClassVar[str]

    @property
    def permissions(self) -> tuple[Permission, ...]:
        """What it does beyond listing and watching what it looks at. Reading one object live is a right of its own."""
        ...

    @property
    def watches(self) -> tuple[Resource[Any], ...]:
        """The kinds that its decisions look at."""
        ...

    def keys(self, resource: Resource[Any], changed: KubeObject, view: View) -> Iterable[Key]:
        """Which keys does this change concern? Asked with the old and the new state of an object."""
        ...

    def decide(self, key: Key, view: View, now: datetime) -> Decision: ...
