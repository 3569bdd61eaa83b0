"""Parse what a WekaContainer requests, and validate its spec."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from msgspec import Struct

from plimsoll.controllers.allocation.types import ClusterPorts, ContainerSpec, FailureDomain, WekaContainer

FIRST_PORT = 35_000
LAST_PORT = 65_535
# The storage operator allocates for these modes only. Clients, drivers and other helpers get nothing.
ALLOCATABLE_MODES = frozenset({"drive", "compute", "envoy", "s3", "nfs", "smbw", "telemetry", "data-services"})
AGENT_PORT_ONLY = frozenset({"envoy", "telemetry"})
# Single ports start behind the first ranges of a cluster: three of 100 ports, or four of 60.
SINGLE_PORTS_OFFSET = {100: 300, 60: 240}
# A proposal must fit into a condition. Real nodes have far fewer drives.
MOST_DRIVES = 256
TLC, QLC = "TLC", "QLC"
SMALLEST_PIECE_GIB = 384  # of a virtual drive
LONGEST_FAILURE_DOMAIN = 16


class CapacityRequest(Struct, frozen=True):
    """Capacity on shared drives of one type, as `pieces` virtual drives of equal size."""

    type: str
    gib: int
    pieces: int
    exact: bool = False  # spec.driveCapacity: no other number of pieces will do

    def sizes(self, pieces: int) -> tuple[int, ...]:
        size, rest = divmod(self.gib, pieces)
        return (size + 1,) * rest + (size,) * (pieces - rest)


class ResourceRequest(Struct, frozen=True):
    """What a container still needs. A session allocates all of it or nothing."""

    drives: int = 0  # whole drives
    capacity: tuple[CapacityRequest, ...] = ()  # virtual drives
    ports: int = 0  # size of the contiguous range; 0 if it has one
    port: int = 0  # spec.port: the required first port; 0 for any
    agent: bool = False
    agent_port: int = 0  # spec.agentPort: the required port; 0 for any
    first_port: int = FIRST_PORT  # the range to choose from
    last_port: int = LAST_PORT
    own_range: bool = False  # the range comes from the container's spec
    single_ports_offset: int = SINGLE_PORTS_OFFSET[100]

    @property
    def nothing(self) -> bool:
        return not (self.drives or self.capacity or self.ports or self.agent)


class InvalidSpecError(Exception):
    """An invalid spec; one sentence per problem with field and value."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


def is_allocatable(container: WekaContainer) -> bool:
    """Whether containers of this mode get an allocation."""
    return container.spec.mode in ALLOCATABLE_MODES


def read_request(
    container: WekaContainer, ports_per_container: int, cluster: ClusterPorts | None = None
) -> ResourceRequest:
    """What the container needs in addition to what it holds. Raises InvalidSpecError.

    cluster: the ports of the owning WekaCluster, if it is known.
    """
    if not is_allocatable(container):
        return ResourceRequest()
    spec, has = container.spec, container.allocations
    capacity = _capacity(container)
    problems = [*_numbers(spec), *_ports(spec, ports_per_container)]
    if problems := problems or [*_sharing(spec, capacity)]:
        raise InvalidSpecError(problems)
    first, last = _window(spec, cluster)
    wants_range = spec.mode not in AGENT_PORT_ONLY and not has.weka_port
    shared = spec.drive_capacity > 0 or spec.container_capacity > 0
    return ResourceRequest(
        drives=0 if shared else max(0, spec.num_drives - len(has.drives or ())),
        capacity=capacity,
        ports=ports_per_container if wants_range else 0,
        port=spec.port if wants_range else 0,
        agent=not has.agent_port,
        agent_port=spec.agent_port if not has.agent_port else 0,
        first_port=first,
        last_port=last,
        own_range=_range_of(spec) is not None or (cluster is not None and cluster.base_port > 0),
        single_ports_offset=SINGLE_PORTS_OFFSET[ports_per_container],
    )


def _capacity(container: WekaContainer) -> tuple[CapacityRequest, ...]:
    """The virtual drives that are missing, by drive type. The number of drives is the smallest that suffices."""
    spec, has = container.spec, container.allocations.virtual_drives
    if spec.container_capacity <= 0:
        missing = max(0, spec.num_drives - len(has)) if spec.drive_capacity > 0 else 0
        return (CapacityRequest(TLC, missing * spec.drive_capacity, missing, exact=True),) if missing else ()
    ratio, total = spec.drive_types_ratio, spec.container_capacity
    parts = ratio.tlc + ratio.qlc if ratio is not None else 0
    tlc = total * ratio.tlc // parts if ratio is not None and parts > 0 else total
    found = []
    for drive_type, wanted in ((TLC, tlc), (QLC, total - tlc)):
        held = [drive for drive in has if (drive.type or TLC) == drive_type]
        missing = wanted - sum(drive.capacity_gib for drive in held)
        if missing > 0:
            pieces = min(max(1, spec.num_cores - len(held)), max(1, missing // SMALLEST_PIECE_GIB))
            found.append(CapacityRequest(drive_type, missing, pieces))
    return tuple(found)


def awaits_cluster_ports(container: WekaContainer, cluster: ClusterPorts | None) -> bool:
    """Whether the owning WekaCluster exists but the storage operator has not chosen its ports yet."""
    has = container.allocations
    complete = has.agent_port and (has.weka_port or container.spec.mode in AGENT_PORT_ONLY)
    return cluster is not None and not cluster.base_port and _range_of(container.spec) is None and not complete


def failure_domain(named: FailureDomain | None, labels: Mapping[str, str]) -> str:
    """The failure domain of a container on a node with these labels, as the storage operator names it; empty without one."""
    if named is None:
        return ""
    keys = (named.label,) if named.label else named.composite_labels or ()
    text = "-".join(labels[key] for key in keys if key in labels)
    if len(text) > LONGEST_FAILURE_DOMAIN:
        return hashlib.sha256(text.encode()).hexdigest()[:LONGEST_FAILURE_DOMAIN]
    return text.replace("/", "-")


def _range_of(spec: ContainerSpec) -> tuple[int, int] | None:
    """First and last port of spec.portRange; None if it is not set."""
    named = spec.port_range
    if named is None or not named.base_port:
        return None
    last = named.base_port + named.port_range - 1 if named.port_range else LAST_PORT
    return named.base_port, min(last, LAST_PORT)


def _window(spec: ContainerSpec, cluster: ClusterPorts | None) -> tuple[int, int]:
    return _range_of(spec) or cluster_range(cluster) or (FIRST_PORT, LAST_PORT)


def cluster_range(cluster: ClusterPorts | None) -> tuple[int, int] | None:
    """First and last port of a WekaCluster; None if they are not chosen yet."""
    if cluster is None or cluster.base_port <= 0:
        return None
    last = cluster.base_port + cluster.port_range - 1 if cluster.port_range > 0 else LAST_PORT
    return cluster.base_port, min(last, LAST_PORT)


def reserved_range(container: WekaContainer) -> tuple[int, int] | None:
    """The ports that the container's cluster reserves: containers without a range of their own avoid them."""
    named = container.spec.port_range
    if named is None or named.base_port <= 0 or named.port_range <= 0:
        return None
    return named.base_port, min(named.base_port + named.port_range - 1, LAST_PORT)


def _numbers(spec: ContainerSpec) -> Iterable[str]:
    for name, value in (
        ("numDrives", spec.num_drives),
        ("numCores", spec.num_cores),
        ("driveCapacity", spec.drive_capacity),
        ("containerCapacity", spec.container_capacity),
    ):
        if value < 0:
            yield f"spec.{name} is {value}; expected 0 or more"
    if spec.num_drives > MOST_DRIVES:
        yield f"spec.numDrives is {spec.num_drives}; expected at most {MOST_DRIVES}"
    if spec.drive_capacity > 0 and not spec.container_capacity and not spec.num_drives:
        yield f"spec.driveCapacity is {spec.drive_capacity} and spec.numDrives is 0; expected the number of drives in spec.numDrives"
    if spec.container_capacity > 0 and spec.num_cores > MOST_DRIVES:
        yield f"spec.numCores is {spec.num_cores}; expected at most {MOST_DRIVES} virtual drives"


def _sharing(spec: ContainerSpec, missing: tuple[CapacityRequest, ...]) -> Iterable[str]:
    """Contradictions between the fields of shared drives. A container that needs no more virtual drives is not checked."""
    if not missing:
        return
    ratio, cores = spec.drive_types_ratio, max(1, spec.num_cores)
    if spec.container_capacity > 0 and spec.num_drives > 0:
        yield (
            f"spec.numDrives is {spec.num_drives} and spec.containerCapacity is {spec.container_capacity}; they exclude each "
            "other: use numDrives with driveCapacity, or containerCapacity alone"
        )
    if ratio is not None and (ratio.tlc <= 0 or ratio.qlc < 0):
        yield f"spec.driveTypesRatio is tlc {ratio.tlc}, qlc {ratio.qlc}; expected tlc above 0 and qlc 0 or more"
    if spec.container_capacity > 0:
        for one in missing:
            if one.gib < SMALLEST_PIECE_GIB:
                yield (
                    f"spec.containerCapacity is {spec.container_capacity}, of which {one.gib} GiB are missing on {one.type} "
                    f"drives; a virtual drive has at least {SMALLEST_PIECE_GIB} GiB"
                )
        if spec.container_capacity < cores * SMALLEST_PIECE_GIB:
            yield (
                f"spec.containerCapacity is {spec.container_capacity} and spec.numCores is {cores}; expected at least "
                f"{cores * SMALLEST_PIECE_GIB}, {SMALLEST_PIECE_GIB} GiB for each core"
            )
        return
    if ratio is not None:
        yield (
            f"spec.driveCapacity is {spec.drive_capacity} and spec.driveTypesRatio is set; they exclude each other: driveCapacity "
            "is for TLC drives only, use containerCapacity with driveTypesRatio"
        )
    if spec.drive_capacity < SMALLEST_PIECE_GIB:
        yield f"spec.driveCapacity is {spec.drive_capacity}; a virtual drive has at least {SMALLEST_PIECE_GIB} GiB"
    if spec.num_drives < spec.num_cores:
        yield f"spec.numDrives is {spec.num_drives} and spec.numCores is {spec.num_cores}; expected a drive for each core"


def _ports(spec: ContainerSpec, size: int) -> Iterable[str]:
    if spec.port and not 0 < spec.port <= LAST_PORT - size + 1:
        yield f"spec.port is {spec.port}; expected 1 to {LAST_PORT - size + 1}, for {size} ports in a row"
    if spec.agent_port and not 0 < spec.agent_port <= LAST_PORT:
        yield f"spec.agentPort is {spec.agent_port}; expected 1 to {LAST_PORT}"
    if spec.port and spec.port <= spec.agent_port < spec.port + size:
        yield f"spec.agentPort is {spec.agent_port}, which is one of the {size} ports from spec.port {spec.port} on"
    named = spec.port_range
    if named is not None and not 0 <= named.base_port <= LAST_PORT:
        yield f"spec.portRange.basePort is {named.base_port}; expected 1 to {LAST_PORT}"
    elif named is not None and not 0 <= named.port_range <= LAST_PORT - max(named.base_port, 1) + 1:
        most = LAST_PORT - max(named.base_port, 1) + 1
        yield f"spec.portRange.portRange is {named.port_range}; expected at most {most} from port {named.base_port} on"
