"""Which ports a container gets: so many in a row for itself, and a single one for its agent.

Both come from its cluster's range, or from 35000 up where it names none, the lowest that are free. Nothing lies above 65535.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from plimsoll.controllers.allocation.shortage import Shortage, among
from plimsoll.controllers.allocation.spec import Ask
from plimsoll.controllers.allocation.usage import Ledger

CODE = "PortAllocationFailed"


class Ports(Struct, frozen=True):
    first: int = 0
    count: int = 0
    agent: int = 0


def choose_ports(ask: Ask, ledger: Ledger, *, cluster: str) -> Ports | Shortage:
    first = 0
    taken = [(port.first, port.last) for port in ledger.ports]
    # One that names its range may use it, whoever names it, too; the ports that others really hold are theirs all the same.
    foreign = [] if ask.own_range else ledger.ranges_of_other_clusters(cluster)
    # The agent's own wish is kept free, or the range found first might lie over it.
    wish = [(ask.agent_port, ask.agent_port)] if ask.agent_port else []
    if ask.ports:
        if ask.port:
            if (holder := _holder(ledger, ask.port, ask.port + ask.ports - 1)) is not None:
                return Shortage(CODE, f"{_asked(ask, ledger)}: spec.port {ask.port} is not free, {holder}")
            first = ask.port
        else:
            found = _lowest([*taken, *foreign, *wish], ask.ports, ask.first_port, ask.last_port)
            if found is None:
                return Shortage(CODE, _no_room(ask, ledger, f"{ask.ports} ports in a row", foreign))
            first = found
        taken.append((first, first + ask.ports - 1))
    agent = 0
    if ask.agent:
        if ask.agent_port:
            if (holder := _holder(ledger, ask.agent_port, ask.agent_port)) is not None:
                return Shortage(CODE, f"{_asked(ask, ledger)}: spec.agentPort {ask.agent_port} is not free, {holder}")
            agent = ask.agent_port
        else:
            behind = min(ask.first_port + ask.single_ports_offset, ask.last_port + 1)
            single = _lowest([*taken, *foreign], 1, behind, ask.last_port)
            # The room behind the ranges may be full, or the range be shorter than they are.
            single = single or _lowest([*taken, *foreign], 1, ask.first_port, ask.last_port)
            if single is None:
                return Shortage(CODE, _no_room(ask, ledger, "a port for the agent", foreign))
            agent = single
    return Ports(first, ask.ports, agent)


def _lowest(taken: Iterable[tuple[int, int]], count: int, first: int, last: int) -> int | None:
    """Where the lowest gap of `count` ports begins, from `first` to `last`."""
    start = first
    for low, high in sorted(taken):
        if high < start:
            continue
        if low - start >= count:
            break
        start = high + 1
    return start if start + count - 1 <= last else None


def _holder(ledger: Ledger, first: int, last: int) -> str | None:
    for port in ledger.ports:
        if port.first <= last and first <= port.last:
            return f"ports {port.first}-{port.last} are held by {port.holder}"
    return None


def _asked(ask: Ask, ledger: Ledger) -> str:
    return f"asked for {ask.ports} ports in a row and {int(ask.agent)} for the agent on node {ledger.node}"


def _no_room(ask: Ask, ledger: Ledger, what: str, foreign: list[tuple[int, int]]) -> str:
    inside = [port for port in ledger.ports if port.first <= ask.last_port and ask.first_port <= port.last]
    held: dict[str, int] = {}
    for port in inside:
        held[port.holder] = held.get(port.holder, 0) + port.last - port.first + 1
    reserved = f", {len(set(foreign))} ranges are kept by other clusters" if foreign else ""
    return (
        f"{_asked(ask, ledger)}: no room for {what} from {ask.first_port} to {ask.last_port}; "
        f"{ask.last_port - ask.first_port + 1} are there, 0 blocked, {sum(held.values())} taken{reserved}{among(held)}"
    )
