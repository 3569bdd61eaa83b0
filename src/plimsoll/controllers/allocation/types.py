"""The fields of `WekaContainer` that allocation reads.

The kind belongs to the storage operator. Every write is a patch, so fields that are not declared here stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct, field

from plimsoll.kube.codec import convert
from plimsoll.kube.types.meta import KubeObject, Part

# A list entry, undecoded. A patch replaces a whole list, so entries of others are written back unchanged, including unknown
# fields and empty fields that their CRD requires.
AsWritten: TypeAlias = Mapping[str, Any]


class PortRange(Part, frozen=True, gc=False):
    """The port range of the container's cluster; `port_range` is its size, 0 means up to 65535."""

    base_port: int = 0
    port_range: int = 0


class FailureDomain(Part, frozen=True, gc=False):
    """The node labels that make up the failure domain."""

    label: str | None = None
    composite_labels: tuple[str, ...] | None = None


class DriveTypesRatio(Part, frozen=True, gc=False):
    """The parts of `containerCapacity` on TLC and on QLC drives."""

    tlc: int = 0
    qlc: int = 0


class ContainerSpec(Part, frozen=True, gc=False):
    node_affinity: str = ""
    mode: str = ""
    num_drives: int = 0
    num_cores: int = 0
    port: int = 0
    agent_port: int = 0
    port_range: PortRange | None = None
    drive_capacity: int = 0  # GiB of each virtual drive
    container_capacity: int = 0  # GiB of all virtual drives together; takes precedence over drive_capacity
    drive_types_ratio: DriveTypesRatio | None = None
    failure_domain: FailureDomain | None = None


class VirtualDrive(Part, frozen=True, gc=False):
    """A part of a shared drive."""

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
    failure_domain: str | None = None

    @property
    def virtual_drives(self) -> tuple[VirtualDrive, ...]:
        return tuple(convert(drive, VirtualDrive) for drive in self.virtual_drives_as_written or ())

    @property
    def anything(self) -> bool:
        return bool(self.drives or self.virtual_drives_as_written or self.weka_port or self.agent_port)


class StatusCondition(Struct, frozen=True):
    """The fields of a condition that allocation reads."""

    status: str
    reason: str
    message: str
    since: str  # lastTransitionTime, unparsed


class ContainerStatus(Part, frozen=True, gc=False):
    status: str | None = None
    node_affinity: str = ""
    conditions: tuple[AsWritten, ...] | None = None
    allocations: Allocations | None = None
    added_drives: tuple[AsWritten, ...] | None = None  # drives that the storage cluster uses
    container_id: int | None = field(default=None, name="containerID")  # set once it has joined the storage cluster


class WekaContainer(KubeObject, frozen=True, gc=False):
    spec: ContainerSpec = ContainerSpec()
    status: ContainerStatus = ContainerStatus()

    @property
    def title(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def node_name(self) -> str:
        """The node of the container: spec.nodeAffinity, else status.nodeAffinity."""
        return self.spec.node_affinity or self.status.node_affinity

    @property
    def cluster(self) -> str:
        """UID of the owning WekaCluster; empty without one."""
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


class ClusterPorts(Part, frozen=True, gc=False):
    """`WekaCluster.status.ports`: the range of its containers, and single ports of the cluster inside it."""

    base_port: int = 0
    port_range: int = 0
    lb_port: int = 0
    lb_admin_port: int = 0
    s3_port: int = 0
    management_proxy_port: int = 0
    data_services_port: int = 0

    @property
    def single_ports(self) -> tuple[int, ...]:
        found = (self.lb_port, self.lb_admin_port, self.s3_port, self.management_proxy_port, self.data_services_port)
        return tuple(port for port in found if port)


class WekaClusterStatus(Part, frozen=True, gc=False):
    ports: ClusterPorts = ClusterPorts()


class WekaCluster(KubeObject, frozen=True, gc=False):
    status: WekaClusterStatus = WekaClusterStatus()


# The ports of the storage clusters, by UID. Pairs, because a session's task must be hashable.
Clusters: TypeAlias = tuple[tuple[str, ClusterPorts], ...]


def ports_of_cluster(container: WekaContainer, clusters: Clusters) -> ClusterPorts | None:
    """The ports of the owning WekaCluster; None if there is none or it is unknown."""
    return next((ports for uid, ports in clusters if uid and uid == container.cluster), None)
