"""What a container still needs, or why its wish cannot be followed."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.controllers.allocation.spec import (
    CapacityRequest,
    InvalidSpecError,
    ResourceRequest,
    failure_domain,
    read_request,
)
from tests.allocation.build import container, holding, weka_cluster


def ask(ports: int = 100, **fields: Any) -> ResourceRequest:
    return read_request(container("c", **fields), ports)


def test_a_new_container_needs_drives_a_range_and_an_agent_port() -> None:
    found = ask(drives=3)
    assert (found.drives, found.ports, found.agent, found.first_port, found.last_port) == (3, 100, True, 35000, 65535)


def test_what_it_has_it_does_not_need_again() -> None:
    assert read_request(holding("c", drives=("A", "B"), port=35000, agent=35300), 100).nothing
    assert read_request(
        holding("c", drives=("A",), port=35000, agent=35300, spec={"numDrives": 3}), 100
    ) == ResourceRequest(drives=2)


def test_fewer_drives_than_it_has_takes_nothing_away() -> None:
    assert read_request(holding("c", drives=("A", "B"), port=35000, agent=35300, spec={"numDrives": 1}), 100).nothing


@pytest.mark.parametrize(
    "mode", ["client", "data-services-fe", "drivers-loader", "discovery", "adhoc-op", "dist", "ssdproxy", ""]
)
def test_modes_that_hold_nothing_need_nothing(mode: str) -> None:
    assert ask(mode=mode, drives=5).nothing


def test_an_envoy_needs_only_a_port_for_its_agent() -> None:
    found = ask(mode="envoy")
    assert (found.ports, found.agent) == (0, True)


def test_reduced_ports_move_the_single_ports_too() -> None:
    assert (ask(60).ports, ask(60).single_ports_offset) == (60, 240)


def test_a_named_range_is_kept_to() -> None:
    found = ask(spec={"portRange": {"basePort": 40000, "portRange": 500}})
    assert (found.first_port, found.last_port, found.own_range) == (40000, 40499, True)


def test_an_open_range_ends_where_ports_end() -> None:
    assert ask(spec={"portRange": {"basePort": 40000}}).last_port == 65535


def test_drive_capacity_makes_drives_virtual() -> None:
    found = ask(drives=3, spec={"driveCapacity": 500, "numCores": 3})
    assert (found.drives, found.capacity) == (0, (CapacityRequest("TLC", 1500, 3, exact=True),))


@pytest.mark.parametrize(
    ("spec", "capacity"),
    [
        ({"containerCapacity": 1000, "numCores": 2}, [("TLC", 1000, 2)]),
        ({"containerCapacity": 1000}, [("TLC", 1000, 1)]),
        ({"containerCapacity": 2000, "numCores": 2, "driveTypesRatio": {"tlc": 1, "qlc": 1}}, [("TLC", 1000, 2), ("QLC", 1000, 2)]),
        ({"containerCapacity": 2001, "numCores": 2, "driveTypesRatio": {"tlc": 1, "qlc": 2}}, [("TLC", 667, 1), ("QLC", 1334, 2)]),
        ({"containerCapacity": 2000, "numCores": 2, "driveTypesRatio": {"tlc": 4}}, [("TLC", 2000, 2)]),
        ({"containerCapacity": 1000, "driveCapacity": 7, "numCores": 2}, [("TLC", 1000, 2)]),
    ],
)  # fmt: skip
def test_container_capacity_is_split_by_type(spec: dict[str, Any], capacity: list[tuple[str, int, int]]) -> None:
    assert [(one.type, one.gib, one.pieces) for one in ask(spec=spec).capacity] == capacity


def test_pieces_are_as_equal_as_whole_gib_allow() -> None:
    assert CapacityRequest("TLC", 1000, 3).sizes(3) == (334, 333, 333)


def test_a_container_whose_capacity_grows_gets_the_difference() -> None:
    has = {
        "virtualDrives": [{"virtualUUID": "v", "physicalUUID": "u", "capacityGiB": 600}],
        "wekaPort": 1,
        "agentPort": 2,
    }
    found = ask(spec={"containerCapacity": 1000, "numCores": 2}, status={"allocations": has})
    assert found == ResourceRequest(capacity=(CapacityRequest("TLC", 400, 1),))


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"containerCapacity": 1000, "numDrives": 2}, "they exclude each other: use numDrives with driveCapacity"),
        ({"driveCapacity": 500, "numDrives": 2, "driveTypesRatio": {"tlc": 1}}, "driveCapacity is for TLC drives only"),
        ({"containerCapacity": 1000, "driveTypesRatio": {"tlc": 0, "qlc": 3}}, "expected tlc above 0"),
        ({"driveCapacity": 383, "numDrives": 2}, "spec.driveCapacity is 383; a virtual drive has at least 384 GiB"),
        ({"containerCapacity": 700, "numCores": 2}, "expected at least 768, 384 GiB for each core"),
        ({"containerCapacity": 1000, "driveTypesRatio": {"tlc": 1, "qlc": 9}}, "100 GiB are missing on TLC drives"),
        ({"driveCapacity": 500, "numDrives": 2, "numCores": 3}, "expected a drive for each core"),
    ],
)
def test_contradictions_of_shared_drives_are_refused(spec: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidSpecError) as error:
        ask(spec=spec)
    assert said in str(error.value)


def test_a_complete_container_is_not_judged_by_rules_that_came_later() -> None:
    has = {
        "virtualDrives": [{"virtualUUID": "v", "physicalUUID": "u", "capacityGiB": 100}],
        "wekaPort": 1,
        "agentPort": 2,
    }
    assert ask(spec={"containerCapacity": 100, "numDrives": 1}, status={"allocations": has}).nothing


@pytest.mark.parametrize("mode", ["drive", "compute", "s3", "nfs", "smbw", "data-services", "envoy", "telemetry"])
def test_allocatable_modes(mode: str) -> None:
    assert ask(mode=mode).agent
    assert (ask(mode=mode).ports > 0) == (mode not in ("envoy", "telemetry"))


def test_ports_come_from_the_owning_cluster() -> None:
    ports = weka_cluster("c", basePort=45000, portRange=500).status.ports
    found = read_request(container("a", cluster="c"), 100, ports)
    assert (found.first_port, found.last_port, found.own_range) == (45000, 45499, True)
    named = container("a", cluster="c", spec={"portRange": {"basePort": 50000, "portRange": 200}})
    assert read_request(named, 100, ports).first_port == 50000


@pytest.mark.parametrize(
    ("named", "domain"),
    [
        ({"label": "rack"}, "r1"),
        ({"label": "missing"}, ""),
        ({"compositeLabels": ["zone", "rack"]}, "eu-1-r1"),
        ({"compositeLabels": ["missing", "rack"]}, "r1"),
        ({"label": "path"}, "a-b"),
        ({"label": "long"}, "ea77ead2f03ca277"),
        (None, ""),
    ],
)
def test_the_failure_domain_is_named_as_the_storage_operator_does(named: dict[str, Any] | None, domain: str) -> None:
    labels = {"rack": "r1", "zone": "eu-1", "path": "a/b", "long": "a-rack-with-a-long-name"}
    one = container("a", spec={"failureDomain": named} if named else {})
    assert failure_domain(one.spec.failure_domain, labels) == domain


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"numDrives": -1}, "spec.numDrives is -1; expected 0 or more"),
        ({"numDrives": 5000}, "spec.numDrives is 5000; expected at most 256"),
        ({"numCores": -2}, "spec.numCores is -2"),
        ({"driveCapacity": -2}, "spec.driveCapacity is -2"),
        ({"containerCapacity": -2}, "spec.containerCapacity is -2"),
        ({"driveCapacity": 10}, "expected the number of drives in spec.numDrives"),
        ({"containerCapacity": 10, "numCores": 1000}, "spec.numCores is 1000"),
        ({"port": 70000}, "spec.port is 70000; expected 1 to 65436"),
        ({"port": 65500}, "spec.port is 65500"),
        ({"port": -1}, "spec.port is -1"),
        ({"agentPort": 65536}, "spec.agentPort is 65536"),
        ({"port": 36000, "agentPort": 36050}, "spec.agentPort is 36050, which is one of the 100 ports"),
        ({"portRange": {"basePort": 35000, "portRange": 1000000}}, "spec.portRange.portRange is 1000000"),
        ({"portRange": {"basePort": 99999}}, "spec.portRange.basePort is 99999"),
        ({"portRange": {"basePort": -4}}, "spec.portRange.basePort is -4"),
        ({"portRange": {"basePort": 35000, "portRange": -4}}, "spec.portRange.portRange is -4"),
    ],
)
def test_what_cannot_be_followed_names_field_and_value(spec: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidSpecError) as error:
        ask(spec=spec)
    assert said in str(error.value)


def test_every_problem_is_told() -> None:
    with pytest.raises(InvalidSpecError) as error:
        ask(spec={"numDrives": -1, "agentPort": 70000})
    assert len(error.value.problems) == 2
