"""Build a read-only view from one read of a live cluster, or from files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from plimsoll.kube.cache.store import View
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import NotFound
from plimsoll.kube.codec import convert
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import Resource
from plimsoll.snapshot.documents import SNAPSHOT, BadFileError, Document


class SnapshotView(Struct, frozen=True):
    """A view of a cluster at one moment."""

    view: View
    at: datetime


async def read_live(client: Client, resources: Iterable[Resource[Any]], now: datetime) -> SnapshotView:
    """List every kind once, each in one consistent read. A kind that the cluster does not serve is empty."""

    async def items(resource: Resource[Any]) -> tuple[KubeObject, ...]:
        try:
            return (await client.list(resource, resource.watched_in)).items
        except NotFound:
            return ()

    kinds = tuple(dict.fromkeys(resources))
    found = await asyncio.gather(*(items(resource) for resource in kinds))
    return SnapshotView(View.of(dict(zip(kinds, found, strict=True))), now)


def from_documents(documents: Iterable[Document], resources: Iterable[Resource[Any]], now: datetime) -> SnapshotView:
    """The objects of files, with default namespace and a UID where they are missing.

    Kinds that no controller watches are skipped: files for `kubectl apply` contain Services and others.
    """
    kinds = tuple(dict.fromkeys(resources))
    by_name = {(resource.api_version, resource.kind): resource for resource in kinds}
    objects: dict[Resource[Any], list[KubeObject]] = {resource: [] for resource in kinds}
    seen: dict[tuple[str, str, str], Document] = {}
    for document in documents:
        if document.kind == SNAPSHOT:
            now = _taken_at(document)
            continue
        resource = by_name.get((document.api_version, document.kind))
        if resource is None:
            continue
        obj = typed(document, resource)
        identity = (resource.plural, obj.namespace, obj.name)
        if identity in seen:
            raise BadFileError(f"{document.place()}: {document.title} is also at {seen[identity].place()}")
        seen[identity] = document
        if not resource.watched_in or obj.namespace == resource.watched_in:
            objects[resource].append(obj)
    return SnapshotView(View.of(objects), now)


def _taken_at(document: Document) -> datetime:
    """The time of the snapshot. Decisions use it as now, so that cooldowns and windows apply as they did then."""
    said = document.body.get("takenAt")
    try:
        return msgspec.convert(said, datetime) if not isinstance(said, datetime) else said
    except msgspec.ValidationError:
        message = f"takenAt is {said!r}: expected a time such as 2026-01-31T12:00:00Z"
        raise BadFileError(f"{document.place('takenAt')}: {message}") from None


def typed(document: Document, resource: Resource[Any]) -> KubeObject:
    meta = document.body.get("metadata")
    meta = dict(meta) if isinstance(meta, dict) else {}
    if not meta.get("name"):
        raise BadFileError(f"{document.place('metadata')}: {document.kind} without metadata.name")
    if resource.namespaced:
        meta.setdefault("namespace", "default")
    meta.setdefault("uid", f"{resource.kind}/{meta.get('namespace', '')}/{meta['name']}")
    try:
        found: KubeObject = convert({**document.body, "metadata": meta}, resource.type)
    except (msgspec.ValidationError, ValueError) as error:
        path = _path(str(error))
        raise BadFileError(f"{document.place(*path)}: {document.title}: {error}") from None
    return found


def _path(message: str) -> Sequence[str]:
    """The field path from a msgspec message, which ends with it in backquotes: `$.spec.replicas`."""
    _, _, where = message.rpartition("`$.")
    return where.rstrip("`").replace("[...]", "").split(".") if where else ()
