"""What is asked of whoever makes machines: five verbs, and what each of them promises.

Calls get lost, repeat themselves and overlap, and the operator that began something need not be the one that ends it. Therefore

- a machine is asked for under a *key* that its asker has written down before; whoever asks again under the same key, in whatever
  process, gets the machine that was made and never a second one;
- a machine that is gone already has been deleted: `delete` of it succeeds;
- `list` never leaves out a machine in silence: it is whole, or it raises;
- an error says by its type what the asker may do next (`plimsoll.providers.errors`).

A provider decides nothing: how many machines, of which offering, and when they go is the business of the node groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct, field

from plimsoll.kube.types.core import Labels, Resources, Taint

# provisioning: ordered, and not yet running · running: the machine runs, whether or not its node has joined
# failed: it will never run, and costs a deletion · deleting: it is on its way out
MachineState: TypeAlias = Literal["provisioning", "running", "failed", "deleting"]


class Offering(Struct, frozen=True):
    """A size of machine that can be had."""

    id: str  # what a NodeGroup's `offeringIDs` name
    name: str = ""  # what people call it
    # What the whole machine has: "cpu", "memory", "ephemeral-storage", "pods" …, in thousandths as `kube.quantity` has them.
    # A resource that the provider does not know is left out, never guessed.
    capacity: Resources = field(default_factory=dict)
    price_per_hour: float = 0.0
    labels: Labels = field(default_factory=dict)  # that a node of this offering will carry
    datacenters: tuple[str, ...] = ()  # where it is sold; empty: everywhere
    available: bool = True  # False: known, and sold out for now

    def sold_in(self, datacenter: str) -> bool:
        return not self.datacenters or datacenter in self.datacenters


class Machine(Struct, frozen=True):
    """A machine that exists, or is being made or unmade."""

    id: str  # the provider's own name for it; what `delete` takes
    name: str
    key: str  # of the request that made it; empty: not one of ours, or the provider cannot tell any more
    offering: str = ""
    datacenter: str = ""
    group: str = ""
    state: MachineState = "provisioning"
    node_name: str = ""  # of its Node, once that is known; without it, a Node of the machine's name is meant
    addresses: tuple[str, ...] = ()
    created_at: datetime | None = None
    message: str = ""  # the provider's own words on its state, above all on why it failed
    resource_identifier: str = ""  # of the cluster that it was made for

    def within(self, scope: Scope) -> bool:
        """Whether a list of this scope names it."""
        return (not scope.resource_identifier or scope.resource_identifier == self.resource_identifier) and (
            not scope.group or scope.group == self.group
        )


class MachineRequest(Struct, frozen=True):
    """A machine to be made.

    `key` and `name` are labels of RFC 1123 (lower-case letters, digits and "-", at most 63), so that every cloud takes them as a
    tag, a label or a host name. Two requests with the same key are the same request.
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
    labels: Labels = field(default_factory=dict)  # that its node is to carry
    taints: tuple[Taint, ...] = ()
    # Where it is not the first time: when the key was last asked for, in whatever process, as the asker wrote it down before
    # asking. A provider whose lists lag behind then looks for the machine for a while before it orders another.
    last_asked_at: datetime | None = None


class Scope(Struct, frozen=True):
    """Whose machines are listed."""

    resource_identifier: str = ""  # of a cluster, as a NodeGroup names it; empty: all that the account shows
    group: str = ""  # empty: those of every group


class Capabilities(Struct, frozen=True):
    """What can be relied on beyond the verbs' promises, so that the asker can make up for the rest."""

    # Two creates under one key that run at the same moment make one machine. Without it that holds only for one that follows
    # the other, so whoever asks must be alone: the leader, one call a key.
    idempotent_create: bool
    # Machines made for a group are told apart by it; without it `list` of a group may name those of others in its cluster.
    lists_by_group: bool
    # The provider makes and removes the Node objects itself. Without it a machine joins the cluster by its own means, and the
    # Node of a machine that is gone is the asker's to delete.
    makes_nodes: bool


class Provider(Protocol):
    """One source of machines. Every verb may raise any `ProviderError`."""

    @property
    def name(self) -> str:
        """The name of its entry point, and what a NodeGroup's `provider` says."""
        ...

    async def offerings(self, datacenter: str) -> Sequence[Offering]:
        """What is sold in a datacenter (empty: in any), sold-out offerings included. May be remembered for some minutes."""
        ...

    async def list(self, scope: Scope) -> Sequence[Machine]:
        """Every machine of the scope that exists now. Raises rather than give a part."""
        ...

    async def create(self, request: MachineRequest) -> Machine:
        """Order a machine and return as soon as it is ordered, mostly `provisioning`.

        Raises AmbiguousOutcome where nobody can say whether it was ordered: ask again under the same key.
        """
        ...

    async def delete(self, machine_id: str) -> None:
        """Begin to remove a machine, for good. Returns when that is certain to happen; gone already is a success, too."""
        ...

    async def capabilities(self) -> Capabilities: ...

    async def close(self) -> None:
        """End what runs in the background and close connections. Machines are left as they are."""
        ...
