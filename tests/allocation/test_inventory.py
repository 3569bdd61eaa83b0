"""What a node has: its annotations, read or refused with their name and value."""

from __future__ import annotations

import json

import pytest

from plimsoll.controllers.allocation.inventory import (
    BLOCKED,
    BLOCKED_UUIDS,
    DRIVES,
    FULL_DRIVES,
    SHARED,
    InvalidInventoryError,
    SharedDrive,
    read_inventory,
)
from plimsoll.kube.types.core import Node
from tests import build


def node(**annotations: str) -> Node:
    return build.node("n1", annotations=annotations)


def test_a_node_without_annotations_has_nothing() -> None:
    found = read_inventory(build.node("n1"))
    assert (found.drives, found.shared, found.blocked) == ((), (), frozenset())


def test_drives_of_both_forms_are_one_list() -> None:
    found = read_inventory(
        node(**{DRIVES: '["A", "B"]', FULL_DRIVES: '[{"serial": "C", "capacity_gib": 10}, {"serial": "A"}]'})
    )
    assert found.drives == ("C", "A", "B")


def test_shared_drives_are_objects_or_lists() -> None:
    one = {"physical_uuid": "u1", "serial": "A", "capacity_gib": 100, "type": "QLC", "model": "unread"}
    found = read_inventory(node(**{SHARED: json.dumps([one, ["u2", "B", 200, "/dev/nvme1n1"]])}))
    assert found.shared == (SharedDrive("u1", "A", 100, "QLC"), SharedDrive("u2", "B", 200))


def test_a_drive_is_blocked_by_its_serial_or_by_its_uuid() -> None:
    found = read_inventory(
        node(**{BLOCKED: '["A"]', BLOCKED_UUIDS: '["u2"]', SHARED: '[["u1", "B", 9, ""], ["u2", "C", 9, ""]]'})
    )
    assert found.blocked == {"A", "C"}


@pytest.mark.parametrize(
    ("annotation", "value", "said"),
    [
        (DRIVES, "S1,S2", "weka.io/weka-drives is 'S1,S2', which cannot be read"),
        (DRIVES, '{"S1": 1}', "weka.io/weka-drives"),
        (DRIVES, "[1, 2]", "Expected `str`, got `int`"),
        (DRIVES, '["S1", "S2", "S1"]', 'names "S1" 2 times; expected each drive once'),
        (DRIVES, '["S1", ""]', "names a drive without a serial"),
        (BLOCKED, "yes", "weka.io/blocked-drives is 'yes'"),
        (SHARED, '[["u1", "A", -5, ""]]', '"A" -5 GiB; expected more than 0'),
        (SHARED, '[["u1", "A", 5, ""], ["u1", "B", 5, ""]]', 'names "u1" 2 times'),
        (SHARED, '[{"serial": "A"}]', "weka.io/weka-shared-drives"),
        (DRIVES, "[" * 500, "…"),
    ],
)
def test_what_cannot_be_read_is_named(annotation: str, value: str, said: str) -> None:
    with pytest.raises(InvalidInventoryError) as error:
        read_inventory(node(**{annotation: value}))
    assert said in str(error.value)
    assert annotation in str(error.value)


def test_every_problem_is_told() -> None:
    with pytest.raises(InvalidInventoryError) as error:
        read_inventory(node(**{DRIVES: "x", BLOCKED: "y"}))
    assert len(error.value.problems) == 2
