"""`WekaContainer` as far as allocation reads it.

The kind belongs to a storage operator. What is not named here is left as it is: every write is a patch.
"""

from __future__ import annotations

from msgspec import field

from plimsoll.kube.types import KubeObject, Part


class PortRange(Part, frozen=True, gc=False):
    """The ports that a container's cluster has for itself; a size of 0 leaves the end open."""

    base_port: int = 0
    port_range: int = 0


class ContainerSpec(Part, frozen=True, gc=False):
    node_affinity: str = ""
    mode: str = ""
    num_drives: int = 0
    num_cores: int = 0
    port: int = 0
    agent_port: int = 0
    port_range: PortRange | None = None
    drive_capacity: int = 0  # GiB of each virtual drive
    container_capacity: int = 0  # GiB of all virtual drives together; goes before drive_capacity


class VirtualDrive(Part, frozen=True, gc=False):
    """A part of a disk that several containers share."""

    virtual_uuid: str = field(default="", name="virtualUUID")
    physical_uuid: str = field(default="", name="physicalUUID")
    capacity_gib: int = field(default=0, name="capacityGiB")
    serial: str = ""
    type: str = ""


class Allocations(Part, frozen=True, gc=False):
    drives: tuple[str, ...] | None = None
    virtual_drives: tuple[VirtualDrive, ...] | None = None
    weka_port: int = 0
    agent_port: int = 0

    @property
    def anything(self) -> bool:
        return bool(self.drives or self.virtual_drives or self.weka_port or self.agent_port)


class StatusCondition(Part, frozen=True, gc=False):
    """Every field that a condition has, times as text: a patch sends the others' conditions back as they came."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int = 0


class ContainerStatus(Part, frozen=True, gc=False):
    status: str | None = None
    node_affinity: str = ""
    conditions: tuple[StatusCondition, ...] = ()
    allocations: Allocations | None = None


class WekaContainer(KubeObject, frozen=True, gc=False):
    spec: ContainerSpec = ContainerSpec()
    status: ContainerStatus = ContainerStatus()

    @property
    def title(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def home(self) -> str:
        """The node on which it wants to run."""
        return self.spec.node_affinity or self.status.node_affinity

    @property
    def cluster(self) -> str:
        """The UID of the storage cluster that it belongs to; empty for one that stands alone."""
        return next((owner.uid for owner in self.metadata.owner_references if owner.kind == "WekaCluster"), "")

    @property
    def conditions(self) -> tuple[StatusCondition, ...]:
        return self.status.conditions

    @property
    def allocations(self) -> Allocations:
        return self.status.allocations or Allocations()

    @property
    def allocated(self) -> bool:
        return self.allocations.anything


def condition_of(container: WekaContainer, kind: str) -> StatusCondition | None:
    return next((condition for condition in container.conditions if condition.type == kind), None)
