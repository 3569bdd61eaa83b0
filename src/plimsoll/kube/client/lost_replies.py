"""The reply to a write was lost, and a repeat was refused because something is there already: is it what we wanted?

Compared is only what we asked for. The server adds defaults and keeps what others wrote; neither says anything about us.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_ABSENT: Any = object()


def merge_holds(live: Any, wanted: Any) -> bool:
    """Is every field of a merge patch, an apply patch or a new object in the live object, with our value?"""
    if isinstance(wanted, Mapping):
        if live is _ABSENT or live is None:
            live = {}
        return isinstance(live, Mapping) and all(
            merge_holds(live.get(field, _ABSENT), value) for field, value in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        if live is _ABSENT or live is None:
            live = []
        return (
            isinstance(live, list)
            and len(live) == len(wanted)
            and all(merge_holds(there, ours) for there, ours in zip(live, wanted, strict=True))
        )
    if live is _ABSENT:
        # null asks for absence, and the server leaves out what equals its type's zero value.
        return wanted is None or wanted == "" or wanted is False or wanted == 0
    return type(live) is type(wanted) and bool(live == wanted)


def json_patch_holds(live: Any, operations: Sequence[Mapping[str, Any]]) -> bool:
    """Does the live object look as it must after these operations? False also where that cannot be seen."""
    for operation in operations:
        kind, path = operation["op"], operation["path"]
        if kind == "test":
            continue  # it spoke of the object before the change
        parent, last = _walk(live, path)
        if isinstance(parent, list) or kind not in ("add", "replace", "remove"):
            return False  # positions shift, and moved values leave no trace: nothing here could be recognised again
        found = parent.get(last, _ABSENT) if isinstance(parent, Mapping) else _ABSENT
        if kind == "remove":
            if found is not _ABSENT:
                return False
        elif not merge_holds(found, operation["value"]):
            return False
    return True


def _walk(document: Any, pointer: str) -> tuple[Any, str]:
    """The container that a JSON pointer's last part is in, and that part."""
    *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]] or [""]
    for part in parents:
        if isinstance(document, Mapping):
            document = document.get(part, _ABSENT)
        elif isinstance(document, list) and part.isdigit() and int(part) < len(document):
            document = document[int(part)]
        else:
            return _ABSENT, last
    return document, last
