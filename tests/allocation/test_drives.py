"""Which disks: whole ones and parts of them, from one account of usage."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from plimsoll.controllers.allocation.drives import choose_capacity, choose_drives, choose_pieces
from plimsoll.controllers.allocation.inventory import Inventory, SharedDrive
from plimsoll.controllers.allocation.shortage import LONGEST_NOTE, Shortage
from plimsoll.controllers.allocation.spec import CapacityRequest
from plimsoll.controllers.allocation.types import VirtualDrive, WekaContainer
from plimsoll.controllers.allocation.usage import Holding, NodeUsage
from tests.allocation.build import NODE, container, holding


def shared(**sizes: int) -> tuple[SharedDrive, ...]:
    return tuple(SharedDrive(f"uuid-{serial}", serial, size, "TLC") for serial, size in sizes.items())


def usage(*containers: WekaContainer, **fields: object) -> NodeUsage:
    return NodeUsage(NODE, Inventory(**fields), containers)  # type: ignore[arg-type]


def test_drives_are_given_in_the_nodes_own_order() -> None:
    book = usage(holding("a", drives=("S2",)), drives=("S3", "S2", "S1"), blocked=frozenset({"S1"}))
    assert choose_drives(1, book) == ("S3",)


def test_a_shortage_says_what_is_there_and_who_has_it() -> None:
    book = usage(
        holding("a", drives=("S1", "S2")), holding("b", drives=("S3",)), drives=("S1", "S2", "S3", "S4", "S5"),
        blocked=frozenset({"S5"}),
    )  # fmt: skip
    found = choose_drives(3, book)
    assert isinstance(found, Shortage)
    assert found.code == "InsufficientDrives"
    assert found.message == (
        "asked for 3 drives on node n1; 5 are there, 1 blocked, 3 taken, 1 free; taken by default/a (2), default/b (1)"
    )


def test_a_shortage_fits_into_an_event_whoever_has_the_drives() -> None:
    drives = tuple(f"S{n}" for n in range(300))
    holders = [holding(f"a-container-with-a-long-name-{n}", drives=(f"S{n}",)) for n in range(300)]
    found = choose_drives(1, usage(*holders, drives=drives))
    assert isinstance(found, Shortage)
    assert len(found.message) <= LONGEST_NOTE
    assert " more" in found.message


def test_a_container_that_is_leaving_holds_what_it_has() -> None:
    leaving = holding("a", drives=("S1",), deletionTimestamp="2026-01-01T00:00:00Z")
    assert isinstance(choose_drives(1, usage(leaving, drives=("S1",))), Shortage)


def test_a_proposal_counts_as_taken() -> None:
    proposal = {
        "type": "AllocationProposed", "status": "True", "reason": "Proposed",
        "message": '{"node":"n1","epoch":"5","drives":["S1"]}',
    }  # fmt: skip
    waiting = container("a", status={"conditions": [proposal]})
    assert choose_drives(1, usage(waiting, drives=("S1", "S2"))) == ("S2",)


def test_pieces_go_where_the_most_room_is() -> None:
    book = usage(shared=shared(A=100, B=300, C=200))
    found = choose_pieces((150, 100, 100), book, owner_uid="u")
    assert not isinstance(found, Shortage)
    assert [(drive.serial, drive.capacity_gib) for drive in found] == [("B", 150), ("C", 100), ("B", 100)]
    assert {drive.physical_uuid for drive in found} == {"uuid-B", "uuid-C"}
    assert len({drive.virtual_uuid for drive in found}) == 3


def test_the_same_need_gives_the_same_virtual_uuids() -> None:
    book = usage(shared=shared(A=100))
    first = choose_pieces((10, 10), book, owner_uid="u")
    assert first == choose_pieces((10, 10), book, owner_uid="u")
    assert not isinstance(first, Shortage)
    more = choose_pieces((10,), book, owner_uid="u", held=first[1:])
    assert not isinstance(more, Shortage)
    assert more[0].virtual_uuid != first[1].virtual_uuid, "a removed drive leaves a gap in the numbers"


def test_room_in_sum_is_not_room_for_a_piece() -> None:
    found = choose_pieces((150,), usage(shared=shared(A=100, B=100)), owner_uid="u")
    assert isinstance(found, Shortage)
    assert found.code == "InsufficientDriveCapacity"
    assert "asked for 150 GiB in 1 virtual drives of up to 150 GiB" in found.message
    assert "200 free, 100 of them on one drive" in found.message


def test_one_disk_is_never_both() -> None:
    fields = {"drives": ("A", "B"), "shared": shared(A=100, B=100)}
    whole = usage(holding("a", drives=("A",)), **fields)
    pieces = choose_pieces((60, 40), whole, owner_uid="u")
    assert not isinstance(pieces, Shortage)
    assert {drive.serial for drive in pieces} == {"B"}
    parts = usage(**fields)
    parts.enter(
        Holding("u", "default/b", virtual_drives=(VirtualDrive("v", "uuid-A", 10),))
    )  # others left the serial out
    assert choose_drives(2, parts) != ("A", "B")
    assert choose_drives(1, parts) == ("B",)


def typed(**drives: tuple[int, str]) -> tuple[SharedDrive, ...]:
    return tuple(SharedDrive(f"uuid-{serial}", serial, size, kind) for serial, (size, kind) in drives.items())


def test_each_drive_type_is_kept_apart() -> None:
    book = usage(shared=typed(A=(1000, "TLC"), B=(4000, "QLC"), C=(500, "")))
    found = choose_capacity((CapacityRequest("TLC", 1600, 2), CapacityRequest("QLC", 800, 1)), book, owner_uid="u")
    assert isinstance(found, Shortage), "A and C have 1500 GiB; QLC does not count"
    assert "TLC drives of node n1" in found.message
    found = choose_capacity((CapacityRequest("TLC", 1000, 2), CapacityRequest("QLC", 800, 1)), book, owner_uid="u")
    assert not isinstance(found, Shortage)
    assert [(drive.serial, drive.capacity_gib) for drive in found] == [("A", 500), ("A", 500), ("B", 800)]


def test_more_and_smaller_pieces_are_tried_unless_the_size_is_given() -> None:
    book = usage(shared=typed(A=(500, "TLC"), B=(500, "TLC"), C=(500, "TLC")))
    found = choose_capacity((CapacityRequest("TLC", 1200, 1),), book, owner_uid="u")
    assert not isinstance(found, Shortage)
    assert [drive.capacity_gib for drive in found] == [400, 400, 400]
    assert isinstance(choose_capacity((CapacityRequest("TLC", 600, 1, exact=True),), book, owner_uid="u"), Shortage)


def test_a_blocked_disk_gives_no_capacity() -> None:
    found = choose_pieces((10,), usage(shared=shared(A=100), blocked=frozenset({"A"})), owner_uid="u")
    assert isinstance(found, Shortage)
    assert "100 blocked" in found.message


@given(
    sizes=st.lists(st.integers(1, 1000), max_size=6),
    pieces=st.lists(st.integers(1, 600), min_size=1, max_size=8),
    used=st.lists(st.integers(1, 400), max_size=4),
)
def test_no_disk_is_ever_overbooked(sizes: list[int], pieces: list[int], used: list[int]) -> None:
    drives = tuple(SharedDrive(f"u{n}", f"S{n}", size) for n, size in enumerate(sizes))
    book = usage(shared=drives)
    for number, amount in enumerate(used):
        if number < len(drives) and amount <= drives[number].capacity_gib:
            book.enter(
                Holding(
                    f"u{number}", f"h{number}", virtual_drives=(VirtualDrive(f"v{number}", "", amount, f"S{number}"),)
                )
            )
    found = choose_pieces(pieces, book, owner_uid="u")
    if isinstance(found, Shortage):
        return
    assert sorted(drive.capacity_gib for drive in found) == sorted(pieces)
    book.enter(Holding("u", "new", virtual_drives=found))
    assert list(book.conflicts()) == []
