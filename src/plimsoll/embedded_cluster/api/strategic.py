"""Strategic merge patches: kubectl's default for built-in kinds. Lists with merge keys are merged entry by entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plimsoll.embedded_cluster.api.json_documents import Json, without_fields
from plimsoll.embedded_cluster.api.list_keys import SET, built_in_keys

_ORDER = "$setElementOrder/"
_DELETED = "$deleteFromPrimitiveList/"
_RETAINED = "$retainKeys"
_DIRECTIVE = "$patch"


def strategically_merged(document: Any, patch: Any, path: tuple[str, ...] = ()) -> Any:
    if not isinstance(patch, dict):
        return patch
    if patch.get(_DIRECTIVE) == "replace":
        return without_fields(patch, _DIRECTIVE)
    if patch.get(_DIRECTIVE) == "delete":
        return {}
    result: Json = dict(document) if isinstance(document, dict) else {}
    if isinstance(kept := patch.get(_RETAINED), list):
        result = {field: value for field, value in result.items() if field in kept}
    orders = {field.removeprefix(_ORDER): order for field, order in patch.items() if field.startswith(_ORDER)}
    for field, value in patch.items():
        if field in (_RETAINED, _DIRECTIVE) or field.startswith(_ORDER):
            continue
        if field.startswith(_DELETED):
            name = field.removeprefix(_DELETED)
            result[name] = [one for one in result.get(name) or () if one not in value]
        elif value is None:
            result.pop(field, None)
        elif isinstance(value, list):
            result[field] = _merged_list(result.get(field), value, orders.pop(field, None), (*path, field))
        else:
            result[field] = strategically_merged(result.get(field), value, (*path, field))
    for field, order in orders.items():
        before = result.get(field) or []
        result[field] = _ordered(before, order, before, _identity((*path, field)))
    return result


def _identity(path: tuple[str, ...]) -> Callable[[Any], Any]:
    keys = built_in_keys(path)
    if not keys:
        return lambda entry: entry
    return lambda entry: entry.get(keys[0]) if isinstance(entry, dict) else entry


def _merged_list(before: Any, patch: list[Any], order: list[Any] | None, path: tuple[str, ...]) -> list[Any]:
    known = list(before) if isinstance(before, list) else []
    entries, keys, identity = list(known), built_in_keys(path), _identity(path)
    replaces = any(isinstance(one, dict) and one.get(_DIRECTIVE) == "replace" for one in patch)
    if keys is None or replaces:
        return [one for one in patch if not (isinstance(one, dict) and one == {_DIRECTIVE: "replace"})]
    if keys == SET:
        return _ordered(entries + [one for one in patch if one not in entries], order or patch, known, identity)
    for one in patch:
        position = next((i for i, entry in enumerate(entries) if identity(entry) == identity(one)), None)
        if one.get(_DIRECTIVE) == "delete":
            if position is not None:
                del entries[position]
        elif position is None:
            entries.append(strategically_merged({}, one, path))
        else:
            entries[position] = strategically_merged(entries[position], one, path)
    return _ordered(entries, order or patch, known, identity)


def _ordered(entries: list[Any], order: list[Any], before: list[Any], identity: Callable[[Any], Any]) -> list[Any]:
    """Entries that the patch names come in its order; the others keep theirs, and fall behind what is new.

    The two are merged as the API server does it: of two entries that were there before, the one that stood in front goes first;
    where one of them is new, the patch goes first.
    """
    wanted, places = [identity(one) for one in order], [identity(one) for one in before]
    named = sorted((one for one in entries if identity(one) in wanted), key=lambda one: wanted.index(identity(one)))
    rest = [one for one in entries if identity(one) not in wanted]
    result: list[Any] = []
    while named and rest:
        mine, other = identity(named[0]), identity(rest[0])
        stays_behind = mine in places and other in places and places.index(other) < places.index(mine)
        result.append(rest.pop(0) if stays_behind else named.pop(0))
    return result + named + rest
