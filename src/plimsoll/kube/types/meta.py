"""Types of the group meta.k8s.io: what every Kubernetes object has, and selectors. All other type modules build on these.

The types hold the fields that this project reads, and no others. Structs are frozen and untracked by the garbage collector
(`gc=False`), so a collection does not walk 20,000 pods. That is safe because objects are decoded from JSON, which is a tree:
they hold only tuples, strings, numbers and mappings of those, and cannot form a cycle. The cache shares mappings between the
replicas of an owner (`kube/cache/interning.py`); no code may change one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct, field

from plimsoll.kube.types.quantity import Quantity

Labels = Mapping[str, str]
Resources = Mapping[str, Quantity]

_EMPTY: dict[str, Any] = {}


def empty_mapping() -> Any:
    """Return one shared empty mapping: an empty dict in each of three fields of 20,000 pods would cost 4 MB."""
    return _EMPTY


class Part(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Base of all parts of Kubernetes objects. Decoding ignores unknown fields."""


class OwnerReference(Part, frozen=True, gc=False):
    kind: str
    name: str
    uid: str
    api_version: str = ""
    controller: bool | None = None


class Metadata(Part, frozen=True, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    generate_name: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: Labels = field(default_factory=empty_mapping)
    annotations: Labels = field(default_factory=empty_mapping)
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """The owner reference with `controller: true`; an object has at most one."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class KubeObject(Part, frozen=True, gc=False):
    """Base of all objects; each kind adds its spec and status."""

    metadata: Metadata = Metadata()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def labels(self) -> Labels:
        return self.metadata.labels

    @property
    def annotations(self) -> Labels:
        return self.metadata.annotations

    @property
    def terminating(self) -> bool:
        return self.metadata.deletion_timestamp is not None


class Condition(Part, frozen=True, gc=False):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int = 0


class Requirement(Part, frozen=True, gc=False):
    """One expression of a label or node selector."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Part, frozen=True, gc=False):
    match_labels: Labels = field(default_factory=empty_mapping)
    match_expressions: tuple[Requirement, ...] = ()


class CustomObject(KubeObject, frozen=True, gc=False):
    """A custom resource whose schema is not ours; read field by field."""

    spec: Mapping[str, Any] = field(default_factory=empty_mapping)
    status: Mapping[str, Any] = field(default_factory=empty_mapping)
