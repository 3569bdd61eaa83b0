"""Quarantine: what is kept of an object that cannot be decoded, so that one bad object does not cost the view of its kind.

The reflector puts such an object into the store's quarantine with a tolerant envelope. A pod on a node is replaced by a stand-in
that requests more than any node has: so nothing more is placed on that node, and the node is not removed, because the pod fits
nowhere else. Other kinds keep their last decodable state. If not even the envelope can be read, the actuator stops destructive
actions that depend on the kind (`Store.unreadable`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from plimsoll.kube.client.errors import KubeError
from plimsoll.kube.codec import decode_object
from plimsoll.kube.types.core import Container, Pod, PodSpec, ResourceRequirements
from plimsoll.kube.types.meta import KubeObject, Metadata, OwnerReference
from plimsoll.kube.types.quantity import Quantity, parse_quantity
from plimsoll.kube.types.resources import Resource

T = TypeVar("T", bound=KubeObject)

_MORE_THAN_ANY_NODE: Mapping[str, Quantity] = {"cpu": parse_quantity("1M"), "memory": parse_quantity("1Ei")}
# A whole string, or a character that structures a document. It never recurses, however deep a document is nested.
TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]', re.DOTALL)
_OPENING, _CLOSING, _COLON, _COMMA, _QUOTE = b"{[", b"}]", ord(":"), ord(","), ord('"')


class Undecodable(KubeError):
    """An object that cannot be decoded, and of which not even the envelope can be read."""


class Quarantined(Struct, frozen=True):
    """The envelope of an object that cannot be decoded."""

    metadata: Metadata  # name, namespace, uid, resourceVersion, labels and owners, as far as they can be read
    node_name: str  # of a pod; empty for other kinds and for pods that are not bound
    problem: str
    stand_in: Pod | None = None  # what decisions see instead of a pod on a node

    @property
    def uid(self) -> str:
        return self.metadata.uid


class ObjectDecoder(Generic[T]):
    """Decodes objects of one kind, or puts them into quarantine."""

    def __init__(self, resource: Resource[T]) -> None:
        self._resource = resource

    def decode(self, data: bytes | msgspec.Raw) -> T | Quarantined:
        """The object, or its envelope; raises Undecodable if not even that can be read, and DecodeError if it is not JSON."""
        try:
            return decode_object(data, self._resource.type)
        except (msgspec.ValidationError, UnicodeDecodeError) as error:
            return self._quarantined(bytes(data), str(error))
        except RecursionError:
            return self._quarantined(bytes(data), "it is nested too deeply")

    def _quarantined(self, data: bytes, problem: str) -> Quarantined:
        parts = members(data)
        metadata = _metadata(parts.get("metadata", b""))
        if metadata is None:
            raise Undecodable(f"one of the {self._resource.plural} has no readable metadata: {problem}")
        name = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
        node_name = _read(members(parts.get("spec", b"")).get("nodeName"), str) or ""
        stand_in = _stand_in(metadata, node_name) if self._resource.type is Pod and node_name else None
        return Quarantined(metadata, node_name, f"{self._resource.kind} {name} cannot be decoded: {problem}", stand_in)


def _stand_in(metadata: Metadata, node_name: str) -> Pod:
    resources = ResourceRequirements(requests=_MORE_THAN_ANY_NODE)
    return Pod(metadata, PodSpec(containers=(Container("unreadable", resources),), node_name=node_name))


def members(data: bytes) -> Mapping[str, bytes]:
    """The values of a JSON object by key, undecoded; what follows malformed text is left out."""
    found: dict[str, bytes] = {}
    depth, key, begin = 0, "", -1
    for token in TOKEN.finditer(data):
        sign = data[token.start()]
        if sign in _OPENING:
            depth += 1
        elif depth == 1 and sign == _QUOTE and begin < 0:
            key = _read(token[0], str) or ""
        elif depth == 1 and sign == _COLON and begin < 0:
            begin = token.end()
        elif sign == _COMMA or sign in _CLOSING:
            if depth == 1 and begin >= 0:
                found[key] = data[begin : token.start()].strip()
                begin = -1
            depth -= sign in _CLOSING
            if depth == 0:
                break
    return found


def _metadata(data: bytes) -> Metadata | None:
    whole = _read(data, Metadata)
    if whole is not None:
        return whole if whole.name else None
    parts = members(data)
    name = _read(parts.get("name"), str)
    if not name:
        return None
    return Metadata(
        name=name,
        namespace=_read(parts.get("namespace"), str) or "",
        uid=_read(parts.get("uid"), str) or "",
        resource_version=_read(parts.get("resourceVersion"), str) or "",
        labels=_read(parts.get("labels"), dict[str, str]) or {},
        owner_references=_read(parts.get("ownerReferences"), tuple[OwnerReference, ...]) or (),
    )


def _read(data: bytes | None, kind: Any) -> Any:
    """The decoded value, or None if it is absent or of another type."""
    try:
        return decode_object(data, kind) if data else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
