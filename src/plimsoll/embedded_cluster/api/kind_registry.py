"""The kinds that are served: the built-in ones and those of every CustomResourceDefinition."""

from __future__ import annotations

from plimsoll.embedded_cluster.api.json_documents import Json, Path, at
from plimsoll.embedded_cluster.api.kinds import BUILT_IN, COMPUTED, DEFINITIONS, Column, ResourceKind
from plimsoll.embedded_cluster.api.storage import ObjectChange, Storage


class KindRegistry:
    def __init__(self, storage: Storage) -> None:
        self._kinds = {(kind.group, kind.version, kind.plural): kind for kind in (*BUILT_IN, *COMPUTED)}
        storage.collection(DEFINITIONS).listeners.append(self._definition_changed)

    def find(self, group: str, version: str, plural: str) -> ResourceKind | None:
        return self._kinds.get((group, version, plural))

    def all(self) -> tuple[ResourceKind, ...]:
        return tuple(self._kinds.values())

    def of_kind(self, api_version: str, kind: str) -> ResourceKind | None:
        """The kind with this apiVersion and kind."""
        return next((one for one in self._kinds.values() if one.api_version == api_version and one.kind == kind), None)

    def stored(self) -> tuple[ResourceKind, ...]:
        """One kind per stored collection."""
        kept = [kind for kind in self._kinds.values() if kind not in COMPUTED]
        return tuple({kind.storage_key: kind for kind in reversed(kept)}.values())

    def _definition_changed(self, change: ObjectChange) -> None:
        if change.before is not None:
            for kind in _kinds_of(change.before):
                self._kinds.pop((kind.group, kind.version, kind.plural), None)
        if change.type != "DELETED":
            for kind in _kinds_of(change.object):
                self._kinds[kind.group, kind.version, kind.plural] = kind


def _kinds_of(definition: Json) -> list[ResourceKind]:
    spec = definition["spec"]
    names = spec["names"]
    key = (spec["group"], names["plural"])
    return [
        ResourceKind(
            group=spec["group"],
            version=version["name"],
            plural=names["plural"],
            kind=names["kind"],
            namespaced=spec.get("scope") != "Cluster",
            short=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            singular=names.get("singular", ""),
            status=at(version, "subresources", "status") is not None,
            scale=at(version, "subresources", "scale") is not None,
            scale_paths=_scale_paths(at(version, "subresources", "scale", default={})),
            custom=True,
            schema=at(version, "schema", "openAPIV3Schema", default={}),
            columns=tuple(_column(one) for one in version.get("additionalPrinterColumns") or ()),
            stored_as=key,
        )
        for version in spec.get("versions") or ()
        if version.get("served", True)
    ]


def _scale_paths(scale: Json) -> tuple[Path, Path, Path]:
    fields = ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
    wanted, current, selector = (tuple(str(scale.get(field, "")).strip(".").split(".")) for field in fields)
    return wanted, current, selector


def _column(column: Json) -> Column:
    return column["name"], column.get("type", "string"), column["jsonPath"]


def established(definition: Json, now: str) -> Json:
    """The status of an established CustomResourceDefinition."""
    names = {"listKind": f"{at(definition, 'spec', 'names', 'kind')}List", **definition["spec"]["names"]}
    names.setdefault("singular", str(names["kind"]).lower())
    conditions = [
        {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found"},
        {
            "type": "Established",
            "status": "True",
            "reason": "InitialNamesAccepted",
            "message": "the initial names have been accepted",
        },
    ]
    versions = [one["name"] for one in definition["spec"]["versions"] if one.get("storage", True)]
    return {
        "acceptedNames": names,
        "storedVersions": versions,
        "conditions": [{**one, "lastTransitionTime": now} for one in conditions],
    }
