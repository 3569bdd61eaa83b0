"""Containers and nodes for the tests of allocation, described by what matters."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from plimsoll.controllers.allocation.inventory import BLOCKED, DRIVES, SHARED
from plimsoll.controllers.allocation.types import WekaCluster, WekaContainer
from plimsoll.kube.codec import convert
from plimsoll.kube.types.core import Node
from tests import build

NODE = "n1"


def container_body(
    name: str,
    *,
    node: str = NODE,
    drives: int = 0,
    mode: str = "drive",
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **meta: Any,
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "apiVersion": "weka.weka.io/v1alpha1",
        "kind": "WekaContainer",
        "metadata": {"name": name, **meta},
        "spec": {"nodeAffinity": node, "mode": mode, "numDrives": drives, "image": "none", **(spec or {})},
    }
    return {**body, "status": dict(status)} if status is not None else body


def container(name: str, *, cluster: str = "", **fields: Any) -> WekaContainer:
    """A container as the API server has it."""
    meta = build.metadata(name, fields.pop("namespace", "default"))
    for key in ("uid", "generation", "deletionTimestamp", "creationTimestamp"):
        if key in fields:
            meta[key] = fields.pop(key)
    if cluster:
        meta["ownerReferences"] = [{"kind": "WekaCluster", "name": cluster, "uid": cluster}]
    body = container_body(name, **fields)
    return convert({**body, "metadata": meta}, WekaContainer)


def weka_cluster(name: str, **ports: int) -> WekaCluster:
    """A storage cluster whose UID is its name."""
    meta = {**build.metadata(name, "default"), "uid": name}
    return convert({"metadata": meta, "status": {"ports": ports}}, WekaCluster)


def holding(name: str, *, drives: Sequence[str] = (), port: int = 0, agent: int = 0, **fields: Any) -> WekaContainer:
    """A container that others gave something: no marker of ours."""
    allocations: dict[str, Any] = {"drives": list(drives), "wekaPort": port, "agentPort": agent}
    status = {"status": "Running", "allocations": allocations}
    return container(name, status=status, **{"drives": len(drives), **fields})


def drive_annotations(
    drives: Sequence[str] = (), *, blocked: Sequence[str] = (), shared: Mapping[str, int] | None = None
) -> dict[str, str]:
    """Shared drives: serial → GiB; the UUID of S1 is uuid-S1."""
    entries = [
        {"physical_uuid": f"uuid-{serial}", "serial": serial, "capacity_gib": size, "type": "TLC"}
        for serial, size in (shared or {}).items()
    ]
    found = {DRIVES: json.dumps(list(drives))} if drives else {}
    if blocked:
        found[BLOCKED] = json.dumps(list(blocked))
    if entries:
        found[SHARED] = json.dumps(entries)
    return found


def node(name: str = NODE, *drives: str, **fields: Any) -> Node:
    return build.node(name, annotations=drive_annotations(drives, **fields))
