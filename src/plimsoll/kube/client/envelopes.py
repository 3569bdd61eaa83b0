"""The envelopes of lists and watch events."""

from __future__ import annotations

from msgspec import Raw, field

from plimsoll.kube.types.meta import Part


class ListMetadata(Part, frozen=True, gc=False):
    resource_version: str = ""
    continue_: str = field(default="", name="continue")
    remaining_item_count: int | None = None


class WatchEvent(Part, frozen=True, gc=False):
    """One line of a watch stream; the object is decoded once the event type is known."""

    type: str
    object: Raw
