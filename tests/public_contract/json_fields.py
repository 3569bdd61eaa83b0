"""The fields of a type as JSON has them: a path for each, with its type."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

_PLAIN: dict[Any, str] = {
    Any: "any",
    bool: "boolean",
    datetime: "date-time",
    float: "number",
    int: "integer",
    msgspec.Raw: "any",
    msgspec.UnsetType: "absent",
    str: "string",
    timedelta: "duration",
    type(None): "null",
}
_LISTS = (list, Sequence, tuple)
_MAPPINGS = (dict, Mapping)


def fields(kind: Any, *, required: bool = False, known: Mapping[Any, str] | None = None) -> dict[str, str]:
    """By path: the type. `[]` in a path is every item of a list, `{}` every value of a mapping.

    required: mark fields without which the text cannot be read. known: structs whose fields are listed elsewhere, and where.
    """
    return dict(_Walk(known or {}, required=required).fields(kind, ""))


class _Walk:
    def __init__(self, known: Mapping[Any, str], *, required: bool) -> None:
        self._known = known
        self._required = required

    def fields(self, kind: Any, path: str) -> Iterator[tuple[str, str]]:
        """Of a struct, each field and what is inside it."""
        for field in msgspec.structs.fields(kind):
            inner = f"{path}.{field.encode_name}" if path else field.encode_name
            required = ", required" if self._required and field.required else ""
            yield from self._value(field.type, inner, required)

    def _value(self, kind: Any, path: str, note: str = "") -> Iterator[tuple[str, str]]:
        inside: list[tuple[Any, str]] = []  # structs, and where
        name = self._name(kind, path, inside) + note
        yield path, name
        for one, where in inside:
            yield from self.fields(one, where)

    def _name(self, kind: Any, path: str, inside: list[tuple[Any, str]]) -> str:
        """What to call a type; the structs in it go to `inside`."""
        origin, parts = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return self._name(parts[0], path, inside)
        if origin in (Union, types.UnionType):
            return " or ".join(self._name(part, path, inside) for part in parts)
        if origin is Literal:
            return " | ".join(sorted(parts, key=str))
        if origin in _MAPPINGS:
            return f"mapping of {self._name(parts[1], f'{path}{{}}', inside)}"
        if origin in _LISTS and (origin is not tuple or parts[1:] == (...,)):
            return f"list of {self._name(parts[0], f'{path}[]', inside)}"
        if origin is tuple:
            return f"[{', '.join(self._name(part, path, inside) for part in parts)}]"
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            if kind in self._known:
                return self._known[kind]
            inside.append((kind, path))
            return "object"
        if isinstance(kind, type) and issubclass(kind, Enum):
            return " | ".join(sorted(str(one.value) for one in kind))
        if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
            return f"[{', '.join(kind._fields)}]"
        return _PLAIN.get(kind, "other")


def fields_of_sample(sample: Any, path: str = "") -> dict[str, str]:
    """The same, of a value that was printed."""
    found: dict[str, str] = {}
    match sample:
        case dict():
            for name, value in sample.items():
                found |= fields_of_sample(value, f"{path}.{name}" if path else name)
        case list():
            found[path] = "list"
            for value in sample:
                found |= fields_of_sample(value, f"{path}[]")
        case _:
            found[path] = _PLAIN[type(sample)]
    return found
