"""Compares a live object with a write whose reply was lost, to find out whether the write was applied.

Only the fields of the write are compared: the server adds defaults and keeps fields of other writers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_ABSENT: Any = object()


def merge_holds(live: Any, wanted: Any) -> bool:
    """Whether the live object has every field of a merge patch, an apply patch or a new object, with the same value."""
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
        # null asks for absence, and the server omits fields that equal their type's zero value.
        return wanted is None or wanted == "" or wanted is False or wanted == 0
    return type(live) is type(wanted) and bool(live == wanted)


def json_patch_holds(live: Any, operations: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the live object looks as it must after these operations; False if that cannot be determined."""
    for operation in operations:
        kind, path = operation["op"], operation["path"]
        if kind == "test":
            continue  # it tested the object before the change
        parent, last = _walk(live, path)
        if isinstance(parent, list) or kind not in ("add", "replace", "remove"):
            return False  # list positions shift, and moved values leave no trace
        found = parent.get(last, _ABSENT) if isinstance(parent, Mapping) else _ABSENT
        if kind == "remove":
            if found is not _ABSENT:
                return False
        elif not merge_holds(found, operation["value"]):
            return False
    return True


def _walk(document: Any, pointer: str) -> tuple[Any, str]:
    """The container of a JSON pointer's last part, and that part."""
    *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]] or [""]
    for part in parents:
        if isinstance(document, Mapping):
            document = document.get(part, _ABSENT)
        elif isinstance(document, list) and part.isdigit() and int(part) < len(document):
            document = document[int(part)]
        else:
            return _ABSENT, last
    return document, last
