"""Which ports: a range for the container and one for its agent, the lowest that are free, and never above 65535."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from plimsoll.controllers.allocation.conditions import Marker, Proposal, commit_patch, marker_message, marker_of
from plimsoll.controllers.allocation.inventory import Inventory
from plimsoll.controllers.allocation.ports import Ports, choose_ports
from plimsoll.controllers.allocation.shortage import Shortage
from plimsoll.controllers.allocation.spec import ResourceRequest, read_request
from plimsoll.controllers.allocation.types import WekaContainer
from plimsoll.controllers.allocation.usage import Holding, NodeUsage
from tests import build
from tests.allocation.build import NODE, container, holding


def marked(name: str, port: int, ports: int, agent: int = 0) -> WekaContainer:
    """A container of ours with so many ports."""
    plain = holding(name, port=port, agent=agent)
    condition = {
        "type": "Allocated", "status": "True", "reason": "AllocatedByPlimsoll",
        "message": marker_message(NODE, plain.allocations, ports, "7"),
    }  # fmt: skip
    return container(name, status={"allocations": {"wekaPort": port, "agentPort": agent}, "conditions": [condition]})


def choose(*others: WekaContainer, size: int = 100, cluster: str = "", **spec: Any) -> Ports | Shortage:
    wanting = container("wanting", spec=spec, cluster=cluster)
    return choose_ports(read_request(wanting, size), NodeUsage(NODE, Inventory(), [*others, wanting]), cluster=cluster)


def test_the_first_container_of_a_node() -> None:
    assert choose() == Ports(35000, 100, 35300)
    assert choose(size=60) == Ports(35000, 60, 35240)


def test_the_next_one_stands_beside_it() -> None:
    assert choose(holding("a", port=35000, agent=35300)) == Ports(35100, 100, 35301)


def test_the_room_below_the_first_range_is_used() -> None:
    assert choose(holding("a", port=35200, agent=35300)) == Ports(35000, 100, 35301)


def test_ranges_of_two_lengths_stand_side_by_side() -> None:
    assert choose(marked("a", 35000, 60, 35240)) == Ports(35060, 100, 35300)
    assert choose(marked("a", 35000, 100, 35300), size=60) == Ports(35100, 60, 35240)


def test_a_range_that_nobody_marked_is_taken_for_a_long_one() -> None:
    assert choose(holding("a", port=35000), size=60) == Ports(35100, 60, 35240)


def test_a_range_that_nobody_marked_stays_a_long_one_when_its_container_grows() -> None:
    """We add a drive to what others gave, and mark it as ours: its ports are as many as before."""
    theirs = holding("a", port=35000, agent=35300)
    status = commit_patch(theirs, Proposal(NODE, "7", ("S1",)), build.START)["status"]
    grown = container("a", status={**status, "allocations": {"wekaPort": 35000, "agentPort": 35300, "drives": ["S1"]}})
    assert marker_of(grown) == Marker(NODE, 100)
    assert choose(grown) == Ports(35100, 100, 35301)


def test_nothing_lies_above_65535() -> None:
    assert choose(portRange={"basePort": 65436}) == Shortage(
        "PortAllocationFailed",
        "asked for 100 ports in a row and 1 for the agent on node n1: no room for a port for the agent from 65436 to 65535; "
        "100 are there, 0 blocked, 0 taken",
    )
    assert choose(portRange={"basePort": 65435}) == Ports(65435, 100, 65535)


def test_a_cluster_keeps_to_its_own_range() -> None:
    own = {"basePort": 40000, "portRange": 250}
    first = choose(portRange=own)
    assert first == Ports(40000, 100, 40100)
    found = choose(holding("a", port=40000, agent=40100), holding("b", port=40101, agent=40201), portRange=own)
    assert isinstance(found, Shortage)
    assert (
        "from 40000 to 40249; 250 are there, 0 blocked, 202 taken; taken by default/a (101), default/b (101)"
        in found.message
    )


def test_ranges_of_other_clusters_are_respected() -> None:
    theirs = container("a", cluster="one", spec={"portRange": {"basePort": 35000, "portRange": 500}})
    assert choose(theirs, cluster="two") == Ports(35500, 100, 35600)
    assert choose(theirs, cluster="one") == Ports(35000, 100, 35300)
    elsewhere = container("a", node="n2", cluster="one", spec={"portRange": {"basePort": 35000, "portRange": 500}})
    assert choose(elsewhere, cluster="two") == Ports(35000, 100, 35300), "ports belong to a node"


def test_two_clusters_that_name_the_same_range_share_it_without_overlap() -> None:
    both = {"basePort": 35000, "portRange": 500}
    theirs = holding("a", port=35000, agent=35300, cluster="one", spec={"portRange": both})
    assert choose(theirs, cluster="two", portRange=both) == Ports(35100, 100, 35301)


def test_explicit_ports_are_honoured() -> None:
    assert choose(port=14000, agentPort=15000) == Ports(14000, 100, 15000)


def test_a_range_is_not_laid_over_the_agents_explicit_port() -> None:
    assert choose(agentPort=35050) == Ports(35051, 100, 35050)


def test_explicit_ports_that_are_held_are_refused_with_their_holder() -> None:
    other = holding("a", port=14050, agent=15000)
    found = choose(other, port=14000)
    assert isinstance(found, Shortage)
    assert "spec.port 14000 is not free, ports 14050-14149 are held by default/a" in found.message
    found = choose(other, agentPort=15000)
    assert isinstance(found, Shortage)
    assert "spec.agentPort 15000 is not free, ports 15000-15000 are held by default/a" in found.message


def test_three_hundred_containers_fit_on_a_node_and_no_port_is_given_twice() -> None:
    book, taken = NodeUsage(NODE, Inventory()), set[int]()
    count = 0
    while not isinstance(found := choose_ports(ResourceRequest(ports=100, agent=True), book, cluster=""), Shortage):
        ports = {*range(found.first, found.first + found.count), found.agent}
        assert len(ports) == 101
        assert not ports & taken
        assert max(ports) <= 65535
        taken |= ports
        book.enter(Holding(str(count), f"h{count}", weka_port=found.first, ports=found.count, agent_port=found.agent))
        count += 1
    assert count >= 300


@given(
    held=st.lists(st.tuples(st.integers(34900, 36500), st.sampled_from([1, 60, 100])), max_size=12),
    size=st.sampled_from([60, 100]),
    first=st.integers(35000, 35400),
    length=st.integers(50, 900),
)
def test_whatever_is_held_ports_are_free_and_inside(
    held: list[tuple[int, int]], size: int, first: int, length: int
) -> None:
    book = NodeUsage(NODE, Inventory())
    for number, (port, ports) in enumerate(held):
        book.enter(Holding(str(number), f"h{number}", weka_port=port, ports=ports))
    last = first + length - 1
    offset = 300 if size == 100 else 240
    ask = ResourceRequest(
        ports=size, agent=True, first_port=first, last_port=last, own_range=True, single_ports_offset=offset
    )
    free = set(range(first, last + 1)) - {p for port, ports in held for p in range(port, port + ports)}
    found = choose_ports(ask, book, cluster="")
    if isinstance(found, Shortage):
        room = [p for p in range(first, last - size + 2) if set(range(p, p + size)) <= free]
        assert not room or len(free) == size or "for the agent" in found.message
        return
    given_out = set(range(found.first, found.first + size))
    assert given_out <= free
    assert found.agent in free - given_out
