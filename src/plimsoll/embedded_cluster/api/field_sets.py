"""Which fields an applied document sets, in the notation of `metadata.managedFields` (FieldsV1).

A field set is a set of paths; an element of a path is `f:name`, `k:{keys}` for an entry of a keyed list, or `v:value` for one
of a set. The path of an entry itself ends in `.`: who owns that owns the entry's being there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from plimsoll.embedded_cluster.api.json_documents import Json
from plimsoll.embedded_cluster.api.list_keys import SET, Keys, list_item_key

FieldPath = tuple[str, ...]
KeysAt = Callable[[Sequence[str]], Keys | None]
# Not owned by any manager: they identify the object.
_IDENTITY = {("f:apiVersion",), ("f:kind",), *((("f:metadata", f"f:{name}")) for name in ("name", "namespace"))}
_SERVER_OWNED = {
    ("f:metadata", f"f:{name}")
    for name in (
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "managedFields",
        "generateName",
        "selfLink",
    )
}


def field_set(document: Json, keys_at: KeysAt) -> frozenset[FieldPath]:
    paths = _leaves(document, keys_at, (), ())
    return frozenset(path for path in paths if path[:2] not in _SERVER_OWNED and path not in _IDENTITY)


def _leaves(value: Any, keys_at: KeysAt, names: tuple[str, ...], path: FieldPath) -> Iterator[FieldPath]:
    if isinstance(value, dict) and value:
        for field, inner in value.items():
            yield from _leaves(inner, keys_at, (*names, field), (*path, f"f:{field}"))
        return
    keys = keys_at(names) if isinstance(value, list) else None
    if not isinstance(value, list) or keys is None:
        yield path
        return
    for entry in value:
        here = (*path, entry_element(entry, keys))
        yield (*here, ".")
        if keys != SET and isinstance(entry, dict):
            for field, inner in entry.items():
                yield from _leaves(inner, keys_at, (*names, field), (*here, f"f:{field}"))


def entry_element(entry: Any, keys: Keys) -> str:
    if keys == SET:
        return "v:" + msgspec.json.encode(entry).decode()
    values = dict(zip(keys, list_item_key(entry, keys), strict=True))
    return "k:" + msgspec.json.encode(dict(sorted(values.items()))).decode()


def to_fields(paths: frozenset[FieldPath]) -> Json:
    """The nested form that is stored."""
    tree: Json = {}
    for path in sorted(paths):
        node = tree
        for element in path:
            node = node.setdefault(element, {})
    return tree


def from_fields(tree: Json) -> frozenset[FieldPath]:
    def walk(node: Json, path: FieldPath) -> Iterator[FieldPath]:
        if not node:
            yield path
        for element, inner in node.items():
            yield from walk(inner, (*path, element))

    return frozenset(walk(tree, ())) if tree else frozenset()


_MISSING = object()


def value_at(document: Any, path: FieldPath) -> Any:
    """The value at a path, or a unique marker if it is missing."""
    for element in path:
        if element == ".":
            return True
        document = _step(document, element)
        if document is _MISSING:
            return _MISSING
    return document


def _step(document: Any, element: str) -> Any:
    if element.startswith("f:"):
        return document.get(element[2:], _MISSING) if isinstance(document, dict) else _MISSING
    position = _position(document, element)
    return _MISSING if position is None else document[position]


def _position(entries: Any, element: str) -> int | None:
    if not isinstance(entries, list):
        return None
    wanted = msgspec.json.decode(element[2:])
    for position, entry in enumerate(entries):
        if element.startswith("v:"):
            if entry == wanted:
                return position
        elif isinstance(entry, dict) and list_item_key(entry, tuple(wanted)) == tuple(wanted.values()):
            return position
    return None


def remove_at(document: Any, path: FieldPath) -> None:
    """Remove a field or a list item from a document in place, if it exists."""
    *parents, last = path if path[-1] != "." else path[:-1]
    for element in parents:
        document = _step(document, element)
        if document is _MISSING:
            return
    if last.startswith("f:"):
        if isinstance(document, dict):
            document.pop(last[2:], None)
    elif (position := _position(document, last)) is not None:
        del document[position]


def encode_field_set(path: FieldPath) -> str:
    """A path in the notation of conflict messages: `.spec.replicas`, `.spec.containers[name="main"].image`."""
    parts = []
    for element in path:
        if element.startswith("f:"):
            parts.append(f".{element[2:]}")
        elif element.startswith("k:"):
            keys = msgspec.json.decode(element[2:])
            inside = ",".join(f"{key}={msgspec.json.encode(value).decode()}" for key, value in keys.items())
            parts.append(f"[{inside}]")
        elif element.startswith("v:"):
            parts.append(f"[={element[2:]}]")
    return "".join(parts)
