"""Parse what a WekaContainer requests, and validate its spec."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from plimsoll.controllers.allocation.types import ContainerSpec, WekaContainer

FIRST_PORT = 35_000
LAST_PORT = 65_535
# Short-lived modes and modes that share resources of other containers.
WITHOUT_ALLOCATION = frozenset(
    {
        "adhoc-op",
        "adhoc-op-with-container",
        "discovery",
        "dist",
        "drivers-builder",
        "drivers-dist",
        "drivers-loader",
        "ssdproxy",
    }
)
AGENT_PORT_ONLY = frozenset({"envoy", "telemetry"})
# Single ports start behind the first ranges of a cluster: three of 100 ports, or four of 60.
SINGLE_PORTS_OFFSET = {100: 300, 60: 240}
# A proposal must fit into a condition. Real nodes have far fewer drives.
MOST_DRIVES = 256


class ResourceRequest(Struct, frozen=True):
    """What a container still needs. A session allocates all of it or nothing."""

    drives: int = 0  # whole drives
    pieces_gib: tuple[int, ...] = ()  # sizes of virtual drives
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
        return not (self.drives or self.pieces_gib or self.ports or self.agent)


class InvalidSpecError(Exception):
    """An invalid spec; one sentence per problem with field and value."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


def is_allocatable(container: WekaContainer) -> bool:
    """Whether containers of this mode get an allocation."""
    return container.spec.mode not in WITHOUT_ALLOCATION


def read_request(container: WekaContainer, ports_per_container: int) -> ResourceRequest:
    """What the container needs in addition to what it holds. Raises InvalidSpecError."""
    if not is_allocatable(container):
        return ResourceRequest()
    spec, has = container.spec, container.allocations
    if problems := [*_numbers(spec), *_ports(spec, ports_per_container)]:
        raise InvalidSpecError(problems)
    first, last = _window(spec)
    wants_range = spec.mode not in AGENT_PORT_ONLY and not has.weka_port
    shared = spec.drive_capacity > 0 or spec.container_capacity > 0
    return ResourceRequest(
        drives=0 if shared else max(0, spec.num_drives - len(has.drives or ())),
        pieces_gib=_pieces(container) if shared else (),
        ports=ports_per_container if wants_range else 0,
        port=spec.port if wants_range else 0,
        agent=not has.agent_port,
        agent_port=spec.agent_port if not has.agent_port else 0,
        first_port=first,
        last_port=last,
        own_range=_range_of(spec) is not None,
        single_ports_offset=SINGLE_PORTS_OFFSET[ports_per_container],
    )


def _pieces(container: WekaContainer) -> tuple[int, ...]:
    """Sizes in GiB of the missing virtual drives, as equal as whole GiB allow."""
    spec, has = container.spec, container.allocations.virtual_drives
    if spec.container_capacity <= 0:
        return (spec.drive_capacity,) * max(0, spec.num_drives - len(has))
    missing = spec.container_capacity - sum(drive.capacity_gib for drive in has)
    if missing <= 0:
        return ()
    count = min(missing, max(1, (spec.num_drives or spec.num_cores) - len(has)))
    size, rest = divmod(missing, count)
    return (size + 1,) * rest + (size,) * (count - rest)


def _range_of(spec: ContainerSpec) -> tuple[int, int] | None:
    """First and last port of spec.portRange; None if it is not set."""
    named = spec.port_range
    if named is None or not named.base_port:
        return None
    last = named.base_port + named.port_range - 1 if named.port_range else LAST_PORT
    return named.base_port, min(last, LAST_PORT)


def _window(spec: ContainerSpec) -> tuple[int, int]:
    return _range_of(spec) or (FIRST_PORT, LAST_PORT)


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
    pieces = spec.num_drives or spec.num_cores
    if spec.container_capacity > 0 and pieces > MOST_DRIVES:
        yield f"spec.numCores is {spec.num_cores}; expected at most {MOST_DRIVES} virtual drives"


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
