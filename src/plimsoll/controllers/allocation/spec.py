"""What a container still needs, as a typed value, or every reason why its wish cannot be followed."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from plimsoll.controllers.allocation.types import ContainerSpec, WekaContainer

FIRST_PORT = 35_000
LAST_PORT = 65_535
# Modes that come and go, or share what others hold; they are given nothing and miss nothing.
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
# Single ports stand behind the first ranges of a cluster: three of 100, or four of 60.
SINGLE_PORTS_OFFSET = {100: 300, 60: 240}
# A proposal must fit into a condition; no node has a tenth as many drives.
MOST_DRIVES = 256


class Ask(Struct, frozen=True):
    """What is missing. All of it is given, or nothing."""

    drives: int = 0  # whole ones
    pieces_gib: tuple[int, ...] = ()  # of shared ones
    ports: int = 0  # in a row; 0: none are missing
    port: int = 0  # the first of them, where the container insists on it
    agent: bool = False
    agent_port: int = 0  # where the container insists on it
    first_port: int = FIRST_PORT  # where both are looked for, and
    last_port: int = LAST_PORT
    own_range: bool = False  # whether the container named that range itself
    single_ports_offset: int = SINGLE_PORTS_OFFSET[100]

    @property
    def nothing(self) -> bool:
        return not (self.drives or self.pieces_gib or self.ports or self.agent)


class InvalidSpecError(Exception):
    """A spec that cannot be followed; one sentence each, naming field and value."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


def takes_part(container: WekaContainer) -> bool:
    """Whether containers of this mode hold anything at all."""
    return container.spec.mode not in WITHOUT_ALLOCATION


def read_ask(container: WekaContainer, ports_per_container: int) -> Ask:
    """What the container needs in addition to what it has; growth only ever adds."""
    if not takes_part(container):
        return Ask()
    spec, has = container.spec, container.allocations
    if problems := [*_numbers(spec), *_ports(spec, ports_per_container)]:
        raise InvalidSpecError(problems)
    first, last = _window(spec)
    wants_range = spec.mode not in AGENT_PORT_ONLY and not has.weka_port
    shared = spec.drive_capacity > 0 or spec.container_capacity > 0
    return Ask(
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
    """The sizes of the virtual drives that are missing: as many as asked for, and as even as whole GiB allow."""
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
    """First and last port of the range that the container names, if it names one."""
    named = spec.port_range
    if named is None or not named.base_port:
        return None
    last = named.base_port + named.port_range - 1 if named.port_range else LAST_PORT
    return named.base_port, min(last, LAST_PORT)


def _window(spec: ContainerSpec) -> tuple[int, int]:
    return _range_of(spec) or (FIRST_PORT, LAST_PORT)


def reserved_range(container: WekaContainer) -> tuple[int, int] | None:
    """The ports that a container's cluster keeps for itself: others without a range of their own stay out of it."""
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
        yield f"spec.driveCapacity is {spec.drive_capacity} and spec.numDrives is 0; expected how many drives of that size"
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
