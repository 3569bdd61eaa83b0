"""Discovery documents, and as much OpenAPI as kubectl needs for writes."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from typing import Any

from plimsoll.embedded_cluster.api.json_documents import Json
from plimsoll.embedded_cluster.api.kinds import ResourceKind

# The version whose behaviour is modelled: clients compare their own with it.
VERSION = "v1.37.1"


def version_info() -> Json:
    major, minor, _ = VERSION.removeprefix("v").split(".")
    return {
        "major": major, "minor": minor, "gitVersion": f"{VERSION}+plimsoll", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": platform.python_implementation().lower(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }  # fmt: skip


def core_versions(address: str) -> Json:
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}


def groups(kinds: Iterable[ResourceKind]) -> Json:
    versions: dict[str, list[str]] = {}
    for kind in kinds:
        if kind.group and kind.version not in versions.setdefault(kind.group, []):
            versions[kind.group].append(kind.version)
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group(name, found) for name, found in versions.items()],
    }


def group(name: str, kinds: Iterable[ResourceKind]) -> Json | None:
    found = list(dict.fromkeys(kind.version for kind in kinds if kind.group == name))
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, found)} if name and found else None


def _group(name: str, versions: list[str]) -> Json:
    shown = [{"groupVersion": f"{name}/{version_info}", "version": version_info} for version_info in versions]
    return {"name": name, "versions": shown, "preferredVersion": shown[0]}


def resources(group_name: str, version_name: str, kinds: Iterable[ResourceKind]) -> Json | None:
    found = [kind for kind in kinds if (kind.group, kind.version) == (group_name, version_name)]
    if not found:
        return None
    listed = [entry for kind in found for entry in _entries(kind)]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": found[0].api_version, "resources": listed}


def _entries(kind: ResourceKind) -> Iterable[Json]:
    entry: Json = {
        "name": kind.plural, "singularName": kind.singular or kind.kind.lower(), "namespaced": kind.namespaced,
        "kind": kind.kind, "verbs": list(kind.verbs),
    }  # fmt: skip
    if kind.short:
        entry["shortNames"] = list(kind.short)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    yield entry
    special = {
        "scale": {"group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": ["get", "patch", "update"]},
        "eviction": {"group": "policy", "version": "v1", "kind": "Eviction", "verbs": ["create"]},
        "binding": {"kind": "Binding", "verbs": ["create"]},
        "log": {"kind": "Pod", "verbs": ["get"]},
        "attach": {"kind": "PodAttachOptions", "verbs": ["create", "get"]},
        "exec": {"kind": "PodExecOptions", "verbs": ["create", "get"]},
        "portforward": {"kind": "PodPortForwardOptions", "verbs": ["create", "get"]},
        "status": {"kind": kind.kind, "verbs": ["get", "patch", "update"]},
    }
    for name in kind.subresources:
        yield {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced, **special[name]}


def openapi_index(kinds: Iterable[ResourceKind]) -> Json:
    paths = dict.fromkeys(_openapi_path(kind) for kind in kinds)
    return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}?hash=embedded"} for path in paths}}


def _openapi_path(kind: ResourceKind) -> str:
    return f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"


def openapi(path: str, kinds: Iterable[ResourceKind]) -> Json | None:
    """The schemas of custom kinds, for `kubectl explain`; of the built-in ones there are none.

    To send a write, kubectl only looks whether a PATCH of the kind takes `fieldValidation`, and leaves the checking to us.
    """
    found = [kind for kind in kinds if _openapi_path(kind) == path]
    if not found:
        return None
    parameters = [
        {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for name in ("dryRun", "fieldManager", "fieldValidation", "force")
    ]
    paths: Json = {}
    schemas: Json = {}
    for kind in found:
        where = (
            f"/{path}/namespaces/{{namespace}}/{kind.plural}/{{name}}"
            if kind.namespaced
            else f"/{path}/{kind.plural}/{{name}}"
        )
        identity = {"group": kind.group, "version": kind.version, "kind": kind.kind}
        patch = {
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": identity,
            "parameters": parameters,
            "responses": {},
        }
        paths[where] = {"patch": patch}
        if kind.schema is not None:
            name = ".".join((*reversed(kind.group.split(".")), kind.version, kind.kind))
            schemas[name] = {**_with_identity(kind.schema), "x-kubernetes-group-version-kind": [identity]}
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": VERSION},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _with_identity(schema: Mapping[str, Any]) -> Json:
    """The schema with the metadata fields that every object has."""
    text = {"type": "string"}
    described = {
        "apiVersion": {**text, "description": "The group and version of this object's schema."},
        "kind": {**text, "description": "What this object is."},
        "metadata": {"type": "object", "description": "Name, labels, annotations, owners."},
    }
    return {**schema, "properties": {**(schema.get("properties") or {}), **described}}
