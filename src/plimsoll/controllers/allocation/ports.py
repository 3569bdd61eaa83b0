"""Choose a contiguous port range for a container and a single port for its agent.

Both are the lowest free ports of the cluster's range, or from 35000 up without one. No port is above 65535.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from plimsoll.controllers.allocation.shortage import Shortage, holders_text
from plimsoll.controllers.allocation.spec import ResourceRequest
from plimsoll.controllers.allocation.usage import NodeUsage

CODE = "PortAllocationFailed"


class Ports(Struct, frozen=True):
    first: int = 0
    count: int = 0
    agent: int = 0


def choose_ports(request: ResourceRequest, usage: NodeUsage, *, cluster: str) -> Ports | Shortage:
    first = 0
    taken = [*((port.first, port.last) for port in usage.ports), *usage.cluster_ports]
    # A container with its own range may use all of it, even if another cluster reserves it; ports in use stay excluded.
    foreign = [] if request.own_range else usage.ranges_of_other_clusters(cluster)
    # Keep the requested agent port free: the range is chosen first and could cover it.
    wish = [(request.agent_port, request.agent_port)] if request.agent_port else []
    if request.ports:
        if request.port:
            if (holder := _holder(usage, request.port, request.port + request.ports - 1)) is not None:
                return Shortage(CODE, f"{_asked(request, usage)}: spec.port {request.port} is not free, {holder}")
            first = request.port
        else:
            found = _lowest([*taken, *foreign, *wish], request.ports, request.first_port, request.last_port)
            if found is None:
                return Shortage(CODE, _no_room(request, usage, f"{request.ports} ports in a row", foreign))
            first = found
        taken.append((first, first + request.ports - 1))
    agent = 0
    if request.agent:
        if request.agent_port:
            if (holder := _holder(usage, request.agent_port, request.agent_port)) is not None:
                return Shortage(
                    CODE, f"{_asked(request, usage)}: spec.agentPort {request.agent_port} is not free, {holder}"
                )
            agent = request.agent_port
        else:
            behind = min(request.first_port + request.single_ports_offset, request.last_port + 1)
            single = _lowest([*taken, *foreign], 1, behind, request.last_port)
            # Fall back to the whole range if the part behind the offset is full or does not exist.
            single = single or _lowest([*taken, *foreign], 1, request.first_port, request.last_port)
            if single is None:
                return Shortage(CODE, _no_room(request, usage, "a port for the agent", foreign))
            agent = single
    return Ports(first, request.ports, agent)


def _lowest(taken: Iterable[tuple[int, int]], count: int, first: int, last: int) -> int | None:
    """The first port of the lowest gap of `count` ports between `first` and `last`; None if there is none."""
    start = first
    for low, high in sorted(taken):
        if high < start:
            continue
        if low - start >= count:
            break
        start = high + 1
    return start if start + count - 1 <= last else None


def _holder(usage: NodeUsage, first: int, last: int) -> str | None:
    for port in usage.ports:
        if port.first <= last and first <= port.last:
            return f"ports {port.first}-{port.last} are held by {port.holder}"
    return None


def _asked(request: ResourceRequest, usage: NodeUsage) -> str:
    return f"asked for {request.ports} ports in a row and {int(request.agent)} for the agent on node {usage.node}"


def _no_room(request: ResourceRequest, usage: NodeUsage, what: str, foreign: list[tuple[int, int]]) -> str:
    inside = [port for port in usage.ports if port.first <= request.last_port and request.first_port <= port.last]
    held: dict[str, int] = {}
    for port in inside:
        held[port.holder] = held.get(port.holder, 0) + port.last - port.first + 1
    reserved = f", {len(set(foreign))} ranges are kept by other clusters" if foreign else ""
    return (
        f"{_asked(request, usage)}: no room for {what} from {request.first_port} to {request.last_port}; "
        f"{request.last_port - request.first_port + 1} are there, 0 blocked, {sum(held.values())} taken{reserved}{holders_text(held)}"
    )
