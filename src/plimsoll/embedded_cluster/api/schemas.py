"""The structural schema of a custom kind: defaulting, pruning and validation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from plimsoll.embedded_cluster.api.json_documents import Json, deep_copy
from plimsoll.embedded_cluster.api.status import FieldError, invalid_value, not_supported, required

Schema = Mapping[str, Any]
_OPEN = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_ALWAYS_KNOWN = ("apiVersion", "kind", "metadata")


def pruned(value: Any, schema: Schema, *, root: bool = True) -> Any:
    """The value without fields that the schema does not define."""
    if isinstance(value, list):
        items = schema.get("items")
        return [pruned(one, items, root=False) for one in value] if isinstance(items, Mapping) else value
    if not isinstance(value, dict) or schema.get("x-kubernetes-embedded-resource"):
        return value
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    kept: Json = {}
    for field, inner in value.items():
        if root and field in _ALWAYS_KNOWN:
            kept[field] = inner
        elif field in properties:
            kept[field] = pruned(inner, properties[field], root=False)
        elif isinstance(others, Mapping):
            kept[field] = pruned(inner, others, root=False)
        elif others is True or schema.get(_OPEN):
            kept[field] = inner
    return kept


def filled_in(value: Any, schema: Schema) -> Any:
    """The value with the schema's defaults for fields that are absent, or null without being nullable."""
    if isinstance(value, list):
        items = schema.get("items")
        return [filled_in(one, items) for one in value] if isinstance(items, Mapping) else value
    if not isinstance(value, dict):
        return value
    filled = dict(value)
    for field, inner in (schema.get("properties") or {}).items():
        if filled.get(field) is None and "default" in inner and not (field in filled and inner.get("nullable")):
            filled[field] = deep_copy(inner["default"])
        elif field in filled and filled[field] is None and not inner.get("nullable"):
            del filled[field]
        if field in filled:
            filled[field] = filled_in(filled[field], inner)
    others = schema.get("additionalProperties")
    if isinstance(others, Mapping):
        known = schema.get("properties") or {}
        filled = {field: inner if field in known else filled_in(inner, others) for field, inner in filled.items()}
    return filled


def schema_errors(value: Any, schema: Schema, where: str = "") -> Iterator[FieldError]:
    """An error for everything in a value that the schema does not allow."""
    if value is None and schema.get("nullable"):
        return
    wrong = _type_fault(value, schema, where)
    if wrong is not None:
        yield wrong
        return
    if "enum" in schema and value not in schema["enum"]:
        yield not_supported(where, value, schema["enum"])
    if isinstance(value, dict):
        yield from _object_faults(value, schema, where)
    elif isinstance(value, list):
        yield from _size_faults(len(value), schema, where, "Items", "items")
        items = schema.get("items")
        if isinstance(items, Mapping):
            for position, one in enumerate(value):
                yield from schema_errors(one, items, f"{where}[{position}]")
        yield from _duplicates(value, schema, where)
    elif isinstance(value, str):
        yield from _size_faults(len(value), schema, where, "Length", "chars long")
        pattern = schema.get("pattern")
        if pattern is not None and not re.search(pattern, value):
            yield invalid_value(where, value, f"{where} in body should match '{pattern}'")
        if schema.get("format") == "date-time" and not _is_moment(value):
            yield invalid_value(where, value, f'{where} in body must be of type date-time: "{value}"')
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number_faults(value, schema, where)
    yield from _combined_faults(value, schema, where)


_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "boolean": (bool,), "integer": (int,), "number": (int, float),
}  # fmt: skip
_NAMES = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}


def _type_fault(value: Any, schema: Schema, where: str) -> FieldError | None:
    wanted = schema.get("type")
    if schema.get(_INT_OR_STRING):
        good = isinstance(value, int | str) and not isinstance(value, bool)
        wanted = "integer,string"
    elif wanted is None:
        return None
    else:
        good = isinstance(value, _TYPES[wanted]) and (wanted == "boolean" or not isinstance(value, bool))
        good = good or (wanted == "integer" and isinstance(value, float) and value.is_integer())
    if good:
        return None
    found = _NAMES.get(type(value), "null")
    why = f'{where} in body must be of type {wanted}: "{found}"'
    return FieldError("FieldValueTypeInvalid", f'Invalid value: "{found}": {why}', where)


def _object_faults(value: Json, schema: Schema, where: str) -> Iterator[FieldError]:
    for field in schema.get("required") or ():
        if field not in value:
            yield required(_inside(where, field))
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    yield from _size_faults(len(value), schema, where, "Properties", "properties")
    for field, inner in value.items():
        if field in properties and not (not where and field == "metadata"):
            yield from schema_errors(inner, properties[field], _inside(where, field))
        elif isinstance(others, Mapping) and field not in properties:
            yield from schema_errors(inner, others, _inside(where, field))


def _inside(where: str, field: str) -> str:
    return f"{where}.{field}" if where else field


def _size_faults(size: int, schema: Schema, where: str, what: str, words: str) -> Iterator[FieldError]:
    least, most = schema.get(f"min{what}"), schema.get(f"max{what}")
    if least is not None and size < least:
        yield FieldError(
            "FieldValueInvalid", f"Invalid value: {size}: {where} in body should have at least {least} {words}", where
        )
    if most is not None and size > most:
        yield FieldError("FieldValueTooMany", f"Too many: {size}: must have at most {most} {words}", where)


def _number_faults(value: float, schema: Schema, where: str) -> Iterator[FieldError]:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and (value < least or (schema.get("exclusiveMinimum") and value == least)):
        yield invalid_value(where, value, f"{where} in body should be greater than or equal to {least}")
    if most is not None and (value > most or (schema.get("exclusiveMaximum") and value == most)):
        yield invalid_value(where, value, f"{where} in body should be less than or equal to {most}")
    step = schema.get("multipleOf")
    if step and value % step:
        yield invalid_value(where, value, f"{where} in body should be a multiple of {step}")


def _duplicates(value: list[Any], schema: Schema, where: str) -> Iterator[FieldError]:
    kind, seen = schema.get("x-kubernetes-list-type"), list[Any]()
    if kind not in ("map", "set"):
        return
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    for position, one in enumerate(value):
        identity = one if kind == "set" else {key: one.get(key) for key in keys if isinstance(one, dict)}
        if identity in seen:
            yield FieldError("FieldValueDuplicate", f"Duplicate value: {identity}", f"{where}[{position}]")
        seen.append(identity)


def _combined_faults(value: Any, schema: Schema, where: str) -> Iterator[FieldError]:
    for part in schema.get("allOf") or ():
        yield from schema_errors(value, part, where)
    for name, least, most in (("anyOf", 1, None), ("oneOf", 1, 1)):
        parts = schema.get(name)
        if parts and not schema.get(_INT_OR_STRING):
            fitting = sum(1 for part in parts if not any(schema_errors(value, part, where)))
            if fitting < least or (most is not None and fitting > most):
                yield invalid_value(
                    where, "", f"must validate {'at least' if most is None else ''} one of the schemas ({name})"
                )
    if schema.get("not") and not any(schema_errors(value, schema["not"], where)):
        yield invalid_value(where, "", "must not validate the schema (not)")


def _is_moment(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
