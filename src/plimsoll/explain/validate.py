"""Validate annotations and custom resources in files by the controllers' own rules. `plimsoll validate` calls this."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from plimsoll.controllers.allocation.container_nodes import WEKA_CONTAINERS
from plimsoll.controllers.allocation.spec import InvalidSpecError, read_request
from plimsoll.controllers.allocation.types import WekaContainer
from plimsoll.controllers.deletion_cost.algorithms.registry import Algorithms
from plimsoll.controllers.deletion_cost.spec import PREFIX as DELETION_COST
from plimsoll.controllers.deletion_cost.spec import TYPE, InvalidSettingsError, read_settings
from plimsoll.controllers.nodegroups.spec import spec_problem
from plimsoll.controllers.nodegroups.types import NODE_GROUPS, NodeGroup
from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.controllers.placement.spec import ENABLED, MIN_ON_DEMAND, SPOT_PERCENTAGE, AnnotationProblem, read_window
from plimsoll.controllers.placement.workload import Unmanaged, evaluate_workload, parse_workload
from plimsoll.kube.types.apps import Deployment, StatefulSet
from plimsoll.kube.types.core import Namespace
from plimsoll.kube.types.resources import DEPLOYMENTS, NAMESPACES, STATEFULSETS, Resource
from plimsoll.snapshot.documents import BadFileError, Document, FilePosition
from plimsoll.snapshot.view import typed

PLACEMENT = "spotalis.io/"
_KINDS: tuple[Resource[Any], ...] = (DEPLOYMENTS, STATEFULSETS, NAMESPACES, NODE_GROUPS, WEKA_CONTAINERS)
_SECTIONS = ("annotations", "labels")
_SWITCHES = (ENABLED, DELETION_COST + "enabled")


class FileProblem(Struct, frozen=True, rename="camel"):
    """One problem with its position, and the corrected value if it is unambiguous."""

    place: FilePosition
    object: str
    key: str
    value: str
    rule: str
    fix: str | None = None

    def __str__(self) -> str:
        shown = self.value if len(self.value) <= 40 else self.value[:40] + "…"
        said = f'{self.key} is "{shown}": ' if self.key else ""
        return f"{self.place}: {self.object}: {said}{self.rule}"


class Rules(Struct, frozen=True):
    """The configuration that the rules depend on."""

    placement: PlacementSettings
    algorithms: Algorithms
    ports_per_container: int = 100


def problems_in(document: Document, rules: Rules) -> Iterator[FileProblem]:
    resource = next(
        (one for one in _KINDS if (one.api_version, one.kind) == (document.api_version, document.kind)), None
    )
    if resource is None:
        return
    unquoted = list(_unquoted(document))
    found = list(_meaning(_quoted(document, unquoted), resource, rules))
    told = {fault.key for fault in found}
    found += [fault for fault in unquoted if fault.key not in told]
    yield from sorted(found, key=lambda fault: fault.place.start)


def _meaning(document: Document, resource: Resource[Any], rules: Rules) -> Iterator[FileProblem]:
    try:
        obj = typed(document, resource)
    except BadFileError as error:
        _, _, message = str(error).rpartition(f"{document.title}: ")
        yield FileProblem(document.place(), document.title, "", "", message)
        return
    match obj:
        case Deployment() | StatefulSet():
            yield from _placement(document, obj, rules.placement)
            if isinstance(obj, Deployment):
                yield from _deletion_cost(document, obj, rules.algorithms)
        case Namespace():
            found: list[AnnotationProblem] = []
            read_window(obj.annotations, found)
            yield from (_annotation(document, fault) for fault in found)
        case NodeGroup():
            if (wrong := spec_problem(obj)) is not None:
                yield FileProblem(document.place("spec"), document.title, "", "", wrong)
        case WekaContainer():
            try:
                read_request(obj, rules.ports_per_container)
            except InvalidSpecError as error:
                for problem in error.problems:
                    yield FileProblem(document.place("spec"), document.title, "", "", problem)


def _quoted(document: Document, faults: Sequence[FileProblem]) -> Document:
    """The document with quoted values, so that later checks report further problems in the same run."""
    if not faults:
        return document
    meta = dict(document.body["metadata"])
    meant = {fault.key: fault.value for fault in faults}
    for section in _SECTIONS:
        if isinstance(meta.get(section), Mapping):
            meta[section] = {key: meant.get(key, value) for key, value in meta[section].items()}
    return replace(document, body={**document.body, "metadata": meta})


def _unquoted(document: Document) -> Iterator[FileProblem]:
    """Annotation and label values that YAML does not read as strings, such as true or 70."""
    meta = document.body.get("metadata")
    for section in _SECTIONS:
        values = meta.get(section) if isinstance(meta, Mapping) else None
        for key, value in values.items() if isinstance(values, Mapping) else ():
            if isinstance(value, str) or not str(key).startswith((PLACEMENT, DELETION_COST)):
                continue
            text = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
            place = document.place("metadata", section, key)
            rule = f'must be a string; write "{text}" with quotes'
            yield FileProblem(place, document.title, key, text, rule, None if value is None else f'"{text}"')


def _placement(
    document: Document, workload: Deployment | StatefulSet, settings: PlacementSettings
) -> Iterator[FileProblem]:
    reading = parse_workload(workload, settings)
    yield from (_annotation(document, fault) for fault in reading.problems)
    verdict = evaluate_workload(workload, settings)
    if not reading.problems and isinstance(verdict, Unmanaged) and verdict.is_user_error:
        _, _, told = verdict.reason.message.partition(": ")
        yield FileProblem(
            document.place("metadata", "annotations", MIN_ON_DEMAND),
            document.title,
            "",
            "",
            f"{verdict.reason.code}: {told}",
        )


def autoscaler_warnings(documents: Iterable[Document], settings: PlacementSettings) -> Iterator[FileProblem]:
    """HorizontalPodAutoscalers whose `minReplicas` is below the minimum of the workload that they scale.

    At such a count the workload is not managed. That is a warning: files are valid, and another file may hold the other object.
    """
    scalers: list[Document] = []
    minimums: dict[tuple[str, str, str], int] = {}
    for document in documents:
        if document.kind == "HorizontalPodAutoscaler" and document.api_version.startswith("autoscaling/"):
            scalers.append(document)
        for resource in (DEPLOYMENTS, STATEFULSETS):
            if (document.api_version, document.kind) == (resource.api_version, resource.kind):
                with suppress(BadFileError):
                    workload = typed(document, resource)
                    policy = parse_workload(workload, settings).policy
                    if policy is not None:
                        minimums[resource.kind, workload.namespace, workload.name] = policy.share.min_on_demand
    for document in scalers:
        spec = document.body.get("spec")
        target = spec.get("scaleTargetRef") if isinstance(spec, Mapping) else None
        if not isinstance(spec, Mapping) or not isinstance(target, Mapping):
            continue
        meta = document.body.get("metadata")
        namespace = str(meta.get("namespace") or "default") if isinstance(meta, Mapping) else "default"
        kind, name = str(target.get("kind")), str(target.get("name"))
        minimum, lowest = minimums.get((kind, namespace, name), 0), spec.get("minReplicas", 1)
        if isinstance(lowest, int) and lowest < minimum:
            rule = f"is below {MIN_ON_DEMAND} of {kind} {namespace}/{name}, which is {minimum}; with fewer replicas it is not managed"
            yield FileProblem(document.place("spec"), document.title, "minReplicas", str(lowest), rule)


def _deletion_cost(document: Document, deployment: Deployment, algorithms: Algorithms) -> Iterator[FileProblem]:
    try:
        read_settings(deployment.annotations, algorithms.usable, lambda: algorithms.default_for(deployment))
    except InvalidSettingsError as error:
        for reason in error.reasons:
            key, _, rest = reason.partition(" is ")
            value = deployment.annotations.get(key, "")
            rule = rest.removeprefix(f'"{value}"').lstrip(":, ")
            if key == TYPE:
                rule = f"there is no such type; types there are: {', '.join(algorithms.names)}"
            yield _annotation(document, AnnotationProblem(key, value, rule))


def _annotation(document: Document, fault: AnnotationProblem) -> FileProblem:
    meta = document.body.get("metadata") or {}
    section = "annotations" if fault.key in (meta.get("annotations") or {}) else "labels"
    place = document.place("metadata", section, fault.key)
    return FileProblem(place, document.title, fault.key, fault.value, fault.rule, fixed_value(fault.key, fault.value))


def fixed_value(key: str, value: str) -> str | None:
    """The corrected value as YAML; None if it is ambiguous."""
    bare = value.strip()
    if key in _SWITCHES and bare.lower() in ("true", "false"):
        return f'"{bare.lower()}"'
    if key == SPOT_PERCENTAGE:
        number = bare.removesuffix("%").rstrip()
        if number.isascii() and number.isdecimal() and len(number) <= 3 and int(number) <= 100:
            return f'"{number}%"'
    if key == MIN_ON_DEMAND and bare.isascii() and bare.isdecimal() and len(bare) <= 3:
        return f'"{bare}"'
    return None
