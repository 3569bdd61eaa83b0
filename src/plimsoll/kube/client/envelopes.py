"""What lists and watch events are wrapped in."""

from __future__ import annotations

from msgspec import Raw, field

from plimsoll.kube.types.core import Part


class ListMetadata(Part, frozen=True, gc=False):
    resource_version: str = ""
    continue_: str = field(default="", name="continue")
    remaining_item_count: int | None = None


class WatchEvent(Part, frozen=True, gc=False):
    """One line of a watch stream; the object is decoded once its kind of event is known."""

    type: str
    object: Raw
