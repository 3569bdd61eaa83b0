"""`WekaContainer` as far as allocation reads it.

The kind belongs to a storage operator. What is not named here is left as it is: every write is a patch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct, field

from plimsoll.kube.codec import convert
from plimsoll.kube.types.core import KubeObject, Part

# An entry of a list as it came. A patch replaces lists whole, so the others' entries must go back to the letter, with fields
# that nobody here knows and empty ones that their CRD requires.
AsWritten: TypeAlias = Mapping[str, Any]


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
    virtual_drives_as_written: tuple[AsWritten, ...] | None = field(default=None, name="virtualDrives")
    weka_port: int = 0
    agent_port: int = 0

    @property
    def virtual_drives(self) -> tuple[VirtualDrive, ...]:
        return tuple(convert(drive, VirtualDrive) for drive in self.virtual_drives_as_written or ())

    @property
    def anything(self) -> bool:
        return bool(self.drives or self.virtual_drives_as_written or self.weka_port or self.agent_port)


class StatusCondition(Struct, frozen=True):
    """A condition, as far as it is read."""

    status: str
    reason: str
    message: str
    since: str  # as text, as it came


class ContainerStatus(Part, frozen=True, gc=False):
    status: str | None = None
    node_affinity: str = ""
    conditions: tuple[AsWritten, ...] | None = None
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
    def conditions(self) -> tuple[AsWritten, ...]:
        return self.status.conditions or ()

    @property
    def allocations(self) -> Allocations:
        return self.status.allocations or Allocations()

    @property
    def allocated(self) -> bool:
        return self.allocations.anything


def condition_of(container: WekaContainer, kind: str) -> StatusCondition | None:
    for condition in container.conditions:
        if condition.get("type") == kind:
            fields = ("status", "reason", "message", "lastTransitionTime")
            return StatusCondition(*(str(condition.get(name) or "") for name in fields))
    return None
