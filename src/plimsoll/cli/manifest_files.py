"""Objects from YAML files, as the controllers would see them in a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

from plimsoll.kube.codec import convert
from plimsoll.kube.resources import Resource
from plimsoll.kube.types import KubeObject


class FaultyFileError(Exception):
    """A file that cannot be read as objects; the message names the file and what is wrong."""


class Found(NamedTuple):
    resource: Resource[Any]
    object: KubeObject


def documents(file: Path) -> Iterator[Mapping[str, Any]]:
    """Every object of a file; lists are taken apart."""
    try:
        found = list(yaml.safe_load_all(file.read_text()))
    except (OSError, UnicodeDecodeError) as error:
        raise FaultyFileError(f"{file}: cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise FaultyFileError(f"{file}: this is no YAML: {error}") from None
    for document in found:
        if document is None:
            continue
        if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
            raise FaultyFileError(f"{file}: a document is no Kubernetes object; expected apiVersion, kind and metadata")
        if document["kind"].endswith("List") and isinstance(document.get("items"), list):
            yield from (item for item in document["items"] if isinstance(item, dict))
        else:
            yield document


def objects(file: Path, known: Iterable[Resource[Any]]) -> Iterator[Found]:
    """The objects of the known kinds; others are passed over."""
    by_kind = {(resource.api_version, resource.kind): resource for resource in known}
    for document in documents(file):
        resource = by_kind.get((str(document.get("apiVersion")), document["kind"]))
        if resource is None:
            continue
        try:
            yield Found(resource, convert(_as_in_a_cluster(document, resource), resource.type))
        except (msgspec.ValidationError, ValueError) as error:
            name = (document.get("metadata") or {}).get("name")
            raise FaultyFileError(f"{file}: {resource.kind} {name} cannot be read: {error}") from None


def _as_in_a_cluster(document: Mapping[str, Any], resource: Resource[Any]) -> dict[str, Any]:
    """With what the API server would give it: a manifest has no UID yet, and may leave its namespace to kubectl."""
    metadata = dict(document.get("metadata") or {})
    if resource.namespaced:
        metadata.setdefault("namespace", "default")
    metadata.setdefault("uid", f"{resource.kind}/{metadata.get('namespace', '')}/{metadata.get('name')}")
    metadata.setdefault("resourceVersion", "1")
    return {**document, "metadata": metadata}
