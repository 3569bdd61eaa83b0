"""The interface of a provider of machines: its methods and what each of them guarantees.

Calls are lost, repeated and overlap, and another process may finish what one has started. Therefore

- a machine is created under a *key* that the caller has recorded before; a second call with the same key, from whatever process,
  returns the same machine and never creates another;
- `delete` of a machine that does not exist succeeds;
- `list` is complete or raises; it never leaves out a machine silently;
- the type of an error says what the caller may do next (`plimsoll.providers.errors`).

A provider decides nothing: node groups decide how many machines there are, of which offering, and when they are deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct, field

from plimsoll.kube.types.core import Taint
from plimsoll.kube.types.meta import Labels, Resources

# provisioning: ordered, not running yet · running: whether or not its node has joined
# failed: it will never run and must be deleted · deleting: its deletion was requested
MachineState: TypeAlias = Literal["provisioning", "running", "failed", "deleting"]


class Offering(Struct, frozen=True):
    """A machine size that the provider sells."""

    id: str  # as in a NodeGroup's `offeringIDs`
    name: str = ""  # for people
    # The capacity of the whole machine: "cpu", "memory", "ephemeral-storage", "pods" …, in thousandths (see `kube.types.quantity`).
    # A resource that the provider does not know is left out, never guessed.
    capacity: Resources = field(default_factory=dict)
    price_per_hour: float = 0.0
    labels: Labels = field(default_factory=dict)  # of the nodes of this offering
    datacenters: tuple[str, ...] = ()  # where it is sold; empty means everywhere
    available: bool = True  # False if it is sold out

    def sold_in(self, datacenter: str) -> bool:
        return not self.datacenters or datacenter in self.datacenters


class Machine(Struct, frozen=True):
    """A machine that exists, or is being created or deleted."""

    id: str  # the provider's id; the argument of `delete`
    name: str
    key: str  # of the request that created it; empty if the operator did not order it or the provider does not know
    offering: str = ""
    datacenter: str = ""
    group: str = ""
    state: MachineState = "provisioning"
    node_name: str = ""  # of its Node, once it is known; until then the machine's name is assumed
    provider_id: str = ""  # spec.providerID of its Node, if the provider knows it
    addresses: tuple[str, ...] = ()
    created_at: datetime | None = None
    message: str = ""  # the provider's own words about its state, above all why it failed
    resource_identifier: str = ""  # of the cluster that it belongs to

    def within(self, scope: Scope) -> bool:
        """Whether a list of this scope contains it."""
        return (not scope.resource_identifier or scope.resource_identifier == self.resource_identifier) and (
            not scope.group or scope.group == self.group
        )


class MachineRequest(Struct, frozen=True):
    """A machine to create.

    `key` and `name` are RFC 1123 labels (lower-case letters, digits and "-", at most 63 characters), so that every cloud accepts them
    as a tag, a label or a host name. Two requests with the same key are the same request.
    """

    key: str
    name: str  # of the machine and of its Node
    group: str
    offering: str
    datacenter: str
    resource_identifier: str = ""  # of the cluster that it joins, as a NodeGroup names it
    kubernetes_version: str = ""
    image: str = ""
    ssh_keys: tuple[str, ...] = ()
    project: str = ""
    tags: tuple[str, ...] = ()
    notes: str = ""
    labels: Labels = field(default_factory=dict)  # of its node
    taints: tuple[Taint, ...] = ()
    # If this is a retry: when the key was last used, by whatever process. A provider whose lists lag then looks for the machine for a
    # while before it orders another.
    last_asked_at: datetime | None = None


class Scope(Struct, frozen=True):
    """Which machines are listed."""

    resource_identifier: str = ""  # of a cluster, as in a NodeGroup; empty means all of the account
    group: str = ""  # empty means every group


class Capabilities(Struct, frozen=True):
    """What the provider guarantees beyond the interface."""

    # Concurrent creates under one key create one machine. If False, only consecutive ones do, and only the leader may call, one call
    # per key at a time.
    idempotent_create: bool
    # The provider knows the group of a machine. If False, `list` of a group may contain machines of other groups of the cluster.
    lists_by_group: bool
    # The provider creates and deletes the Node objects. If False, machines join by themselves and the operator deletes their Nodes.
    makes_nodes: bool


class Provider(Protocol):
    """A source of machines. Every method may raise any `ProviderError`."""

    @property
    def name(self) -> str:
        """The name of its entry point, as in a NodeGroup's `provider`."""
        ...

    async def offerings(self, datacenter: str) -> Sequence[Offering]:
        """The offerings of a datacenter (empty: of any), including sold-out ones. May be cached for some minutes."""
        ...

    async def list(self, scope: Scope) -> Sequence[Machine]:
        """Every machine of the scope that exists now. Raises if the list would be incomplete."""
        ...

    async def create(self, request: MachineRequest) -> Machine:
        """Order a machine and return as soon as it is ordered, mostly `provisioning`.

        Raises AmbiguousOutcome if it is not known whether it was ordered: retry under the same key.
        """
        ...

    async def delete(self, machine_id: str) -> None:
        """Delete a machine. Returns once the deletion is certain to happen; succeeds if the machine does not exist."""
        ...

    async def capabilities(self) -> Capabilities: ...

    async def close(self) -> None:
        """Stop background tasks and close connections. Machines are not touched."""
        ...
