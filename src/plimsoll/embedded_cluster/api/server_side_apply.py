"""Server-side apply: field ownership, conflicts, and removal of fields that their manager no longer applies.

Owners are written down only once someone applies: an object that was made otherwise has an owner of everything called
`before-first-apply`, the name that Kubernetes gives to the same case.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from plimsoll.embedded_cluster.api.field_sets import (
    FieldPath,
    KeysAt,
    encode_field_set,
    field_set,
    from_fields,
    remove_at,
    to_fields,
    value_at,
)
from plimsoll.embedded_cluster.api.json_documents import Json, deep_copy, without_fields
from plimsoll.embedded_cluster.api.kinds import ResourceKind
from plimsoll.embedded_cluster.api.list_keys import SET, built_in_keys, list_item_key, schema_keys
from plimsoll.embedded_cluster.api.status import StatusError

_FIRST = "before-first-apply"


class FieldManager(NamedTuple):
    manager: str
    operation: str  # Apply or Update
    subresource: str


Owners = dict[FieldManager, frozenset[FieldPath]]


def keys_of(kind: ResourceKind) -> KeysAt:
    return (lambda path: schema_keys(kind.schema, path)) if kind.custom else built_in_keys


def applied(
    kind: ResourceKind,
    live: Json | None,
    config: Json,
    *,
    manager: str,
    subresource: str,
    force: bool,
    api_version: str,
    now: str,
) -> Json:
    """The object after a manager has applied its configuration; 409 if another manager owns a field it would change."""
    keys_at = keys_of(kind)
    me = FieldManager(manager, "Apply", subresource)
    config = without_fields(config, "status") if not subresource and kind.status else config
    metadata = without_fields(
        config.get("metadata") or {}, "managedFields", "creationTimestamp", "resourceVersion", "uid", "generation"
    )
    config = {**config, "metadata": metadata}
    wanted = field_set(config, keys_at)
    owners = _owners(live, keys_at)
    if live is not None:
        _contest(kind, live, config, wanted, owners, me=me, force=force)
    result = _merged(deep_copy(live) if live is not None else {}, config, keys_at, ())
    elsewhere = frozenset[FieldPath]().union(*(paths for owner, paths in owners.items() if owner != me))
    # An entry goes with everything in it, so entries come first.
    for path in sorted(owners.get(me, frozenset()) - wanted - elsewhere, key=lambda path: (path[-1] != ".", len(path))):
        remove_at(result, path)
    owners[me] = wanted
    return _with_owners(result, owners, api_version, now)


def _contest(
    kind: ResourceKind,
    live: Json,
    config: Json,
    wanted: frozenset[FieldPath],
    owners: Owners,
    *,
    me: FieldManager,
    force: bool,
) -> None:
    conflicts: list[tuple[FieldManager, FieldPath]] = []
    for owner, paths in owners.items():
        if owner == me:
            continue
        conflicts += [
            (owner, path)
            for path in sorted(paths & wanted)
            if path[-1] != "." and value_at(live, path) != value_at(config, path)
        ]
    if conflicts and not force:
        raise _conflict(kind, conflicts)
    for owner, path in conflicts:
        owners[owner] -= {path}


def _conflict(kind: ResourceKind, conflicts: list[tuple[FieldManager, FieldPath]]) -> StatusError:
    def name(owner: FieldManager) -> str:
        using = "" if owner.operation == "Apply" else f" using {kind.api_version}"
        return f'conflict with "{owner.manager}"{using}'

    causes = [
        {"reason": "FieldManagerConflict", "message": name(owner), "field": encode_field_set(path)}
        for owner, path in conflicts
    ]
    number = f"{len(causes)} conflict{'s' if len(causes) > 1 else ''}"
    told = "; ".join(f"{cause['message']}: {cause['field']}" for cause in causes)
    return StatusError(409, "Conflict", f"Apply failed with {number}: {told}", details={"causes": causes})


def _merged(live: Any, config: Any, keys_at: KeysAt, names: tuple[str, ...]) -> Any:
    if isinstance(config, dict):
        result: Json = live if isinstance(live, dict) else {}
        for field, value in config.items():
            result[field] = _merged(result.get(field), value, keys_at, (*names, field))
        return result
    keys = keys_at(names) if isinstance(config, list) else None
    if keys is None or not isinstance(live, list):
        return deep_copy(config)
    entries: list[Any] = live
    for entry in config:
        position = next(
            (i for i, one in enumerate(entries) if list_item_key(one, keys) == list_item_key(entry, keys)), None
        )
        if position is None:
            entries.append(deep_copy(entry))
        elif keys != SET:
            entries[position] = _merged(entries[position], entry, keys_at, names)
    return entries


def after_update(kind: ResourceKind, before: Json, after: Json, *, manager: str, subresource: str, now: str) -> Json:
    """The object after a write other than apply: the writer becomes manager of the changed fields."""
    if not before["metadata"].get("managedFields"):
        return after
    keys_at = keys_of(kind)
    owners = _owners(before, keys_at)
    old, new = field_set(before, keys_at), field_set(after, keys_at)
    changed = {path for path in new if path not in old or value_at(before, path) != value_at(after, path)}
    if not changed and old == new:
        return after
    me = FieldManager(manager, "Update", subresource)
    kept = {
        owner: frozenset(path for path in paths if path in new) - (changed if owner != me else set())
        for owner, paths in owners.items()
    }
    if changed:
        kept[me] = kept.get(me, frozenset()) | changed
    return _with_owners(after, kept, kind.api_version, now)


def _owners(live: Json | None, keys_at: KeysAt) -> Owners:
    if live is None:
        return {}
    entries = live["metadata"].get("managedFields")
    if not entries:
        return {FieldManager(_FIRST, "Update", ""): field_set(without_fields(live, "status"), keys_at)}
    return {
        FieldManager(entry["manager"], entry["operation"], entry.get("subresource", "")): from_fields(
            entry.get("fieldsV1") or {}
        )
        for entry in entries
    }


def _with_owners(obj: Json, owners: Owners, api_version: str, now: str) -> Json:
    before = {
        FieldManager(entry["manager"], entry["operation"], entry.get("subresource", "")): entry
        for entry in obj["metadata"].get("managedFields") or ()
    }
    entries = []
    for owner, paths in owners.items():
        if not paths:
            continue
        fields, known = to_fields(paths), before.get(owner)
        entry = {
            "manager": owner.manager, "operation": owner.operation, "apiVersion": api_version, "time": now,
            "fieldsType": "FieldsV1", "fieldsV1": fields,
        }  # fmt: skip
        if owner.subresource:
            entry["subresource"] = owner.subresource
        # An entry whose fields stay keeps its time: a repeated apply must leave the object as it is.
        entries.append(known if known is not None and known.get("fieldsV1") == fields else entry)
    return {**obj, "metadata": {**obj["metadata"], "managedFields": entries}}
