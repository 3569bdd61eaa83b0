"""Claims of the former scheme: what may go, what differs, and what cannot be read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plimsoll.controllers.allocation.migration import DRIVE_CLAIMS, PORT_CLAIMS, VIRTUAL_CLAIMS, Migration, compare
from tests import build
from tests.allocation.build import container, holding


def migration(*containers: Any, **claims: Any) -> Migration | None:
    names = {"drives": DRIVE_CLAIMS, "ports": PORT_CLAIMS, "virtual": VIRTUAL_CLAIMS}
    annotations = {names[key]: value if isinstance(value, str) else json.dumps(value) for key, value in claims.items()}
    return compare(build.node("n1", annotations=annotations), containers)


def verdicts(found: Migration | None) -> dict[str, str]:
    assert found is not None
    return {claim.what: claim.verdict for claim in found.claims}


def test_a_node_without_claims_is_left_alone() -> None:
    assert migration() is None


def test_what_status_holds_too_and_what_nobody_owns_any_more_may_go() -> None:
    has = holding("a", drives=("S1",), port=35000, agent=35300)
    found = migration(
        has,
        drives={"S1": "cluster:default:a", "S9": "cluster:default:gone"},
        ports={"35000,100": "cluster:default:a", "35300,1": "cluster:default:a"},
    )
    assert verdicts(found) == {"S1": "same", "S9": "owner gone", "35000,100": "same", "35300,1": "same"}
    assert found is not None
    assert found.patch == {"metadata": {"annotations": {DRIVE_CLAIMS: None, PORT_CLAIMS: None}}}


def test_a_difference_keeps_the_annotation_and_only_that() -> None:
    found = migration(
        holding("a", drives=("S1",), port=35000), container("empty"),
        drives={"S1": "c:default:a", "S2": "c:default:a"}, ports={"35000,100": "c:default:a"},
        virtual={"v1": {"container": "c:default:empty", "physicalUUID": "u", "capacityGiB": 5}},
    )  # fmt: skip
    assert verdicts(found) == {"S1": "same", "S2": "differs", "35000,100": "same", "v1": "differs"}
    assert found is not None
    assert found.removable == (PORT_CLAIMS,)
    assert {claim.detail for claim in found.claims} == {
        "",
        "its status has a different allocation",
        "its status has no allocation",
    }


def test_virtual_claims_in_both_forms() -> None:
    drive = {"virtualUUID": "v1", "physicalUUID": "u", "capacityGiB": 5}
    one = container("a", status={"allocations": {"virtualDrives": [drive, {**drive, "virtualUUID": "v2"}]}})
    found = migration(one, virtual={"v1": {"container": "c:default:a"}, "v2": ["c:default:a", "u", 5]})
    assert verdicts(found) == {"v1": "same", "v2": "same"}


@pytest.mark.parametrize("text", ["no JSON", '["a"]', '{"S1": "nobody"}', '{"S1": 5}', '{"S1": []}'])
def test_what_cannot_be_read_is_kept(text: str) -> None:
    found = migration(drives=text)
    assert found is not None
    assert found.removable == ()
    assert DRIVE_CLAIMS in found.unreadable[0]


def test_a_port_that_is_none() -> None:
    found = migration(holding("a", port=1), ports={"x,100": "c:default:a"})
    assert found is not None
    assert '"x,100" is no port' in found.unreadable[0]
