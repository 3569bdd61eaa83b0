"""Scenario changes that other actors make in a simulation: a user scales a workload, the cloud reclaims a node, nodes join."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json
from plimsoll.embedded_cluster.api.kinds import ResourceKind
from plimsoll.embedded_cluster.cluster import EmbeddedCluster
from plimsoll.kube.types.durations import parse_duration

_WORKLOADS = {
    "deployment": kinds.DEPLOYMENTS, "deploy": kinds.DEPLOYMENTS,
    "statefulset": kinds.STATEFULSETS, "sts": kinds.STATEFULSETS,
}  # fmt: skip
_SET = re.compile(
    r"(?P<kind>[a-z]+)/(?:(?P<namespace>[a-z0-9.-]+)/)?(?P<name>[a-z0-9.-]+):(?P<field>[^=]+)=(?P<value>.*)@(?P<at>[^@]+)"
)
_EVENT = re.compile(r"(?P<what>[a-z]+):(?:node/)?(?P<target>.+)@(?P<at>[^@]+)")
_CURVE_STEP_SECONDS = 300.0


class ChangeError(ValueError):
    """A change that cannot be parsed or does not fit the cluster. The message is for the author of the scenario."""


class ScenarioChange(Struct, frozen=True):
    """One change at a time, in seconds from the start; `text` is what the user wrote."""

    at: float
    text: str


class SetField(ScenarioChange, frozen=True):
    kind: ResourceKind
    namespace: str
    name: str
    field: str  # replicas, or annotation KEY
    value: str


class Reclaim(ScenarioChange, frozen=True):
    node: str


class AddNodes(ScenarioChange, frozen=True):
    line: str


def parse_set(text: str) -> SetField:
    """Parse `deployment/web:replicas=40@10m` or `deployment/shop/web:spotalis.io/spot-percentage=30%@1h`."""
    found = _SET.fullmatch(text)
    if found is None or found["kind"] not in _WORKLOADS:
        raise ChangeError(
            f'"{text}"; write it like deployment/web:replicas=40@10m, with a kind of {", ".join(_WORKLOADS)}'
        )
    field, value = found["field"], found["value"]
    if field == "replicas" and not (value.isascii() and value.isdecimal() and len(value) <= 6):
        raise ChangeError(f'"{text}": replicas is "{value}"; expected a whole number')
    if field != "replicas" and "/" not in field:
        raise ChangeError(f'"{text}": "{field}" is neither replicas nor the key of an annotation')
    return SetField(
        _moment(found["at"], text),
        text,
        _WORKLOADS[found["kind"]],
        found["namespace"] or "default",
        found["name"],
        field,
        value,
    )


def parse_event(text: str) -> ScenarioChange:
    """Parse `reclaim:node/spot-a-1@1h` or `nodes:3 zone=a class=spot@2h`."""
    found = _EVENT.fullmatch(text)
    if found is None or found["what"] not in ("reclaim", "nodes"):
        raise ChangeError(f'"{text}"; write it like reclaim:node/spot-a-1@1h or "nodes:3 zone=a class=spot@2h"')
    at = _moment(found["at"], text)
    if found["what"] == "reclaim":
        return Reclaim(at, text, found["target"])
    return AddNodes(at, text, found["target"])


def parse_scenario(document: Any, name: str) -> list[ScenarioChange]:
    """Parse a scenario file: `changes` and `events` as on the command line, and `curves` (replicas that follow the time of day)."""
    known = ("changes", "events", "curves")
    if not isinstance(document, dict):
        raise ChangeError(f'{name}: expected a mapping with "changes", "events" and "curves"')
    if unknown := sorted(map(str, set(document) - set(known))):
        raise ChangeError(f'{name}: "{unknown[0]}" is none of {", ".join(known)}')
    for key in known:
        if not isinstance(document.get(key) or [], list):
            raise ChangeError(f"{name}: {key} is {document[key]!r}; expected a list")
    found: list[ScenarioChange] = [parse_set(str(one)) for one in document.get("changes") or ()]
    found += [parse_event(str(one)) for one in document.get("events") or ()]
    for number, curve in enumerate(document.get("curves") or (), 1):
        found += _curve(curve, f"{name}: curve {number}")
    return found


def _curve(curve: Any, where: str) -> Sequence[ScenarioChange]:
    """Replica changes as an autoscaler would make them: between `low` and `high`, with one peak per period."""
    wanted = {"workload", "low", "high", "period", "for"}
    if not isinstance(curve, dict) or not {"workload", "low", "high"} <= set(curve) <= wanted:
        raise ChangeError(f"{where}: expected workload, low, high, and perhaps period (24h) and for (24h)")
    low, high = curve["low"], curve["high"]
    if not (isinstance(low, int) and isinstance(high, int) and 0 <= low <= high):
        raise ChangeError(f"{where}: low is {low!r} and high is {high!r}; expected whole numbers, low at most high")
    period = _seconds(str(curve.get("period", "24h")), where)
    if period <= 0:
        raise ChangeError(f"{where}: period is {curve['period']!r}; expected a duration above 0, such as 24h")
    steps = int(_seconds(str(curve.get("for", "24h")), where) // _CURVE_STEP_SECONDS)
    found, last = [], None
    for step in range(steps + 1):
        at = step * _CURVE_STEP_SECONDS
        size = round(low + (high - low) * (1 - math.cos(2 * math.pi * at / period)) / 2)
        if size != last:
            found.append(parse_set(f"{curve['workload']}:replicas={size}@{at:g}s"))
            last = size
    return found


def _moment(text: str, whole: str) -> float:
    return _seconds(text, f'"{whole}"')


def _seconds(text: str, where: str) -> float:
    try:
        return parse_duration(text).total_seconds()
    except ValueError as error:
        raise ChangeError(f"{where}: {error}") from None


async def apply_change(change: ScenarioChange, cluster: EmbeddedCluster) -> None:
    match change:
        case SetField():
            found = cluster.api.storage.get(change.kind, change.namespace, change.name)
            if found is None:
                raise ChangeError(f"{change.text}: {change.kind.kind} {change.namespace}/{change.name} does not exist")
            cluster.api.storage.put(change.kind, _with(found, change))
        case Reclaim(node=node):
            if cluster.api.storage.node(node) is None:
                raise ChangeError(f"{change.text}: node {node} does not exist")
            cluster.reclaim(node)
        case AddNodes(line=line):
            await cluster.add_nodes(line)


def _with(found: Json, change: SetField) -> Json:
    meta = found["metadata"]
    if change.field == "replicas":
        generation = meta.get("generation", 1) + 1
        return {
            **found,
            "metadata": {**meta, "generation": generation},
            "spec": {**found["spec"], "replicas": int(change.value)},
        }
    annotations = {**meta.get("annotations", {}), change.field: change.value}
    return {**found, "metadata": {**meta, "annotations": annotations}}
