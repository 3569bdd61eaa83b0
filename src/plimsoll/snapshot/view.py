"""A view over objects that do not change: as a live cluster has them now, or as files say."""

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
from plimsoll.kube.types.core import KubeObject
from plimsoll.kube.types.resources import Resource
from plimsoll.snapshot.documents import SNAPSHOT, BadFileError, Document


class Still(Struct, frozen=True):
    """What was seen, and when."""

    view: View
    at: datetime


async def read_live(client: Client, resources: Iterable[Resource[Any]], now: datetime) -> Still:
    """Every object of these kinds, each kind read at once and consistently; a kind that the cluster does not have is empty."""

    async def items(resource: Resource[Any]) -> tuple[KubeObject, ...]:
        try:
            return (await client.list(resource, resource.watched_in)).items
        except NotFound:
            return ()

    kinds = tuple(dict.fromkeys(resources))
    found = await asyncio.gather(*(items(resource) for resource in kinds))
    return Still(View.of(dict(zip(kinds, found, strict=True))), now)


def from_documents(documents: Iterable[Document], resources: Iterable[Resource[Any]], now: datetime) -> Still:
    """The objects of files. What a file leaves open is filled in as the API server would: a namespace, a UID.

    Kinds that no controller looks at are passed over: files for `kubectl apply` hold Services and much else.
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
    return Still(View.of(objects), now)


def _taken_at(document: Document) -> datetime:
    """A snapshot is looked at as of the moment when it was taken: cooldowns and windows were those of then."""
    said = document.body.get("takenAt")
    try:
        return msgspec.convert(said, datetime) if not isinstance(said, datetime) else said
    except msgspec.ValidationError:
        message = f"takenAt is {said!r}: expected a moment such as 2026-01-31T12:00:00Z"
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
    """msgspec names the field as `$.spec.replicas`, in backquotes at the end of its message."""
    _, _, where = message.rpartition("`$.")
    return where.rstrip("`").replace("[...]", "").split(".") if where else ()
