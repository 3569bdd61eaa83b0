"""Strategic merge patches: what kubectl sends for built-in kinds. Lists of named things are merged entry by entry."""

from __future__ import annotations

from typing import Any

from plimsoll.sim.api.documents import Json, without
from plimsoll.sim.api.list_keys import SET, built_in_keys

_ORDER = "$setElementOrder/"
_DELETED = "$deleteFromPrimitiveList/"
_RETAINED = "$retainKeys"
_DIRECTIVE = "$patch"


def strategically_merged(document: Any, patch: Any, path: tuple[str, ...] = ()) -> Any:
    if not isinstance(patch, dict):
        return patch
    if patch.get(_DIRECTIVE) == "replace":
        return without(patch, _DIRECTIVE)
    if patch.get(_DIRECTIVE) == "delete":
        return {}
    result: Json = dict(document) if isinstance(document, dict) else {}
    if isinstance(kept := patch.get(_RETAINED), list):
        result = {field: value for field, value in result.items() if field in kept}
    for field, value in patch.items():
        if field in (_RETAINED, _DIRECTIVE) or field.startswith(_ORDER):
            continue
        if field.startswith(_DELETED):
            name = field.removeprefix(_DELETED)
            result[name] = [one for one in result.get(name) or () if one not in value]
        elif value is None:
            result.pop(field, None)
        elif isinstance(value, list):
            result[field] = _merged_list(result.get(field), value, (*path, field))
        else:
            result[field] = strategically_merged(result.get(field), value, (*path, field))
    for field, order in patch.items():
        if field.startswith(_ORDER) and isinstance(order, list):
            name = field.removeprefix(_ORDER)
            result[name] = _ordered(result.get(name) or [], order, (*path, name))
    return result


def _merge_key(path: tuple[str, ...]) -> str | None:
    keys = built_in_keys(path)
    return keys[0] if keys else None


def _merged_list(before: Any, patch: list[Any], path: tuple[str, ...]) -> list[Any]:
    entries = list(before) if isinstance(before, list) else []
    if built_in_keys(path) == SET:
        return entries + [one for one in patch if one not in entries]
    key = _merge_key(path)
    if key is None or any(isinstance(one, dict) and one.get(_DIRECTIVE) == "replace" for one in patch):
        return [
            one for one in patch if not (isinstance(one, dict) and one.get(_DIRECTIVE) == "replace" and len(one) == 1)
        ]
    for one in patch:
        position = next((i for i, entry in enumerate(entries) if entry.get(key) == one.get(key)), None)
        if one.get(_DIRECTIVE) == "delete":
            if position is not None:
                del entries[position]
        elif position is None:
            entries.append(strategically_merged({}, one, path))
        else:
            entries[position] = strategically_merged(entries[position], one, path)
    return entries


def _ordered(entries: list[Any], order: list[Any], path: tuple[str, ...]) -> list[Any]:
    """Entries that the patch names come in its order; others stay behind those that they stood behind."""
    key = _merge_key(path)

    def identity(entry: Any) -> Any:
        return entry.get(key) if key and isinstance(entry, dict) else entry

    wanted = [identity(one) for one in order]
    named = sorted((one for one in entries if identity(one) in wanted), key=lambda one: wanted.index(identity(one)))
    rest = [one for one in entries if identity(one) not in wanted]
    return named + rest
