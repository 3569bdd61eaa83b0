"""Compare the claims that the former hybrid scheme left in node annotations with container status.

The allocator ignores these claims. An annotation can be removed if every claim in it is also in its owner's status, or its
owner is deleted; otherwise it may be the only record of an allocation. `plimsoll allocation migrate` calls this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from plimsoll.controllers.allocation.types import Allocations, WekaContainer
from plimsoll.kube.types.core import Node

DRIVE_CLAIMS = "weka.io/drive-claims"  # {"SERIAL": "cluster:namespace:container"}
PORT_CLAIMS = "weka.io/port-claims"  # {"FIRST,COUNT": "cluster:namespace:container"}
VIRTUAL_CLAIMS = "weka.io/virtual-drive-claims"  # {"UUID": {"container": …} or ["cluster:namespace:container", …]}

Verdict = Literal["same", "owner gone", "differs"]


class Claim(Struct, frozen=True):
    annotation: str
    what: str
    owner: str  # namespace/name
    verdict: Verdict
    detail: str = ""


class Migration(Struct, frozen=True):
    """The claims of one node and the annotations that can be removed."""

    node: str
    claims: tuple[Claim, ...] = ()
    unreadable: tuple[str, ...] = ()  # one sentence each
    removable: tuple[str, ...] = ()  # annotations

    @property
    def patch(self) -> dict[str, Any]:
        return {"metadata": {"annotations": dict.fromkeys(self.removable)}}


def compare(node: Node, containers: Iterable[WekaContainer]) -> Migration | None:
    """None if the node has no annotation of the hybrid scheme."""
    by_title = {container.title: container for container in containers}
    claims: list[Claim] = []
    unreadable: list[str] = []
    removable: list[str] = []
    for annotation, holds in _READERS.items():
        text = node.annotations.get(annotation)
        if text is None:
            continue
        try:
            read = [_judge(annotation, what, value, by_title, holds) for what, value in _entries(text)]
        except ValueError as error:
            unreadable.append(
                f"annotation {annotation} of node {node.name} cannot be parsed ({error}); check and remove it by hand"
            )
            continue
        claims += read
        if all(claim.verdict != "differs" for claim in read):
            removable.append(annotation)
    if not (claims or unreadable or removable):
        return None
    return Migration(node.name, tuple(claims), tuple(unreadable), tuple(removable))


def _entries(text: str) -> Iterator[tuple[str, Any]]:
    try:
        found = msgspec.json.decode(text or "{}", type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
    yield from found.items()


def _judge(
    annotation: str,
    what: str,
    value: Any,
    containers: Mapping[str, WekaContainer],
    holds: Callable[[str, Allocations], bool],
) -> Claim:
    owner = _owner(what, value)
    container = containers.get(owner)
    if container is None:
        return Claim(annotation, what, owner, "owner gone")
    if holds(what, container.allocations):
        return Claim(annotation, what, owner, "same")
    detail = "its status has no allocation" if not container.allocated else "its status has a different allocation"
    return Claim(annotation, what, owner, "differs", detail)


def _owner(what: str, value: Any) -> str:
    if isinstance(value, Mapping):
        value = value.get("container")
    elif isinstance(value, list):
        value = value[0] if value else None
    parts = value.split(":") if isinstance(value, str) else []
    if len(parts) != 3:
        raise ValueError(f'the owner of "{what}" is {value!r}; expected "cluster:namespace:container"')
    return f"{parts[1]}/{parts[2]}"


def _holds_port(what: str, has: Allocations) -> bool:
    first, _, _ = what.partition(",")
    if not first.isdecimal():
        raise ValueError(f'"{what}" is no port; expected "FIRST,COUNT"')
    return int(first) in (has.weka_port, has.agent_port)


_READERS: Mapping[str, Callable[[str, Allocations], bool]] = {
    DRIVE_CLAIMS: lambda serial, has: serial in (has.drives or ()),
    PORT_CLAIMS: _holds_port,
    VIRTUAL_CLAIMS: lambda uuid, has: any(drive.virtual_uuid == uuid for drive in has.virtual_drives),
}
