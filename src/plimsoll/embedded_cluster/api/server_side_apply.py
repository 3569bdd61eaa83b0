"""Server-side apply: who set which field, and what becomes of one that its owner no longer asks for.

Owners are written down only once someone applies: an object that was made otherwise has an owner of everything called
`before-first-apply`, the name that Kubernetes gives to the same case.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from plimsoll.embedded_cluster.api.field_sets import (
    FieldPath,
    KeysAt,
    field_set,
    from_fields,
    remove_at,
    shown,
    to_fields,
    value_at,
)
from plimsoll.embedded_cluster.api.json_documents import Json, copied, without
from plimsoll.embedded_cluster.api.kinds import Kind
from plimsoll.embedded_cluster.api.list_keys import SET, built_in_keys, key_of, schema_keys
from plimsoll.embedded_cluster.api.status import Refused

_FIRST = "before-first-apply"


class Owner(NamedTuple):
    manager: str
    operation: str  # Apply or Update
    subresource: str


Owners = dict[Owner, frozenset[FieldPath]]


def keys_of(kind: Kind) -> KeysAt:
    return (lambda path: schema_keys(kind.schema, path)) if kind.custom else built_in_keys


def applied(
    kind: Kind,
    live: Json | None,
    config: Json,
    *,
    manager: str,
    subresource: str,
    force: bool,
    api_version: str,
    now: str,
) -> Json:
    """The object after a manager has applied its configuration; 409 where another owns what it would change."""
    keys_at = keys_of(kind)
    me = Owner(manager, "Apply", subresource)
    config = without(config, "status") if not subresource and kind.status else config
    metadata = without(
        config.get("metadata") or {}, "managedFields", "creationTimestamp", "resourceVersion", "uid", "generation"
    )
    config = {**config, "metadata": metadata}
    wanted = field_set(config, keys_at)
    owners = _owners(live, keys_at)
    if live is not None:
        _contest(kind, live, config, wanted, owners, me=me, force=force)
    result = _merged(copied(live) if live is not None else {}, config, keys_at, ())
    elsewhere = frozenset[FieldPath]().union(*(paths for owner, paths in owners.items() if owner != me))
    # An entry goes with everything in it, so entries come first.
    for path in sorted(owners.get(me, frozenset()) - wanted - elsewhere, key=lambda path: (path[-1] != ".", len(path))):
        remove_at(result, path)
    owners[me] = wanted
    return _with_owners(result, owners, api_version, now)


def _contest(
    kind: Kind, live: Json, config: Json, wanted: frozenset[FieldPath], owners: Owners, *, me: Owner, force: bool
) -> None:
    conflicts: list[tuple[Owner, FieldPath]] = []
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


def _conflict(kind: Kind, conflicts: list[tuple[Owner, FieldPath]]) -> Refused:
    def name(owner: Owner) -> str:
        using = "" if owner.operation == "Apply" else f" using {kind.api_version}"
        return f'conflict with "{owner.manager}"{using}'

    causes = [
        {"reason": "FieldManagerConflict", "message": name(owner), "field": shown(path)} for owner, path in conflicts
    ]
    number = f"{len(causes)} conflict{'s' if len(causes) > 1 else ''}"
    told = "; ".join(f"{cause['message']}: {cause['field']}" for cause in causes)
    return Refused(409, "Conflict", f"Apply failed with {number}: {told}", details={"causes": causes})


def _merged(live: Any, config: Any, keys_at: KeysAt, names: tuple[str, ...]) -> Any:
    if isinstance(config, dict):
        result: Json = live if isinstance(live, dict) else {}
        for field, value in config.items():
            result[field] = _merged(result.get(field), value, keys_at, (*names, field))
        return result
    keys = keys_at(names) if isinstance(config, list) else None
    if keys is None or not isinstance(live, list):
        return copied(config)
    entries: list[Any] = live
    for entry in config:
        position = next((i for i, one in enumerate(entries) if key_of(one, keys) == key_of(entry, keys)), None)
        if position is None:
            entries.append(copied(entry))
        elif keys != SET:
            entries[position] = _merged(entries[position], entry, keys_at, names)
    return entries


def after_update(kind: Kind, before: Json, after: Json, *, manager: str, subresource: str, now: str) -> Json:
    """The object after a write that was no apply: what it changed belongs to its manager now."""
    if not before["metadata"].get("managedFields"):
        return after
    keys_at = keys_of(kind)
    owners = _owners(before, keys_at)
    old, new = field_set(before, keys_at), field_set(after, keys_at)
    changed = {path for path in new if path not in old or value_at(before, path) != value_at(after, path)}
    if not changed and old == new:
        return after
    me = Owner(manager, "Update", subresource)
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
        return {Owner(_FIRST, "Update", ""): field_set(without(live, "status"), keys_at)}
    return {
        Owner(entry["manager"], entry["operation"], entry.get("subresource", "")): from_fields(
            entry.get("fieldsV1") or {}
        )
        for entry in entries
    }


def _with_owners(obj: Json, owners: Owners, api_version: str, now: str) -> Json:
    before = {
        Owner(entry["manager"], entry["operation"], entry.get("subresource", "")): entry
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
