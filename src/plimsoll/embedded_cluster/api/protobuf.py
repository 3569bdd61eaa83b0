"""Decodes protobuf bodies, which commands such as `kubectl create namespace` send.

Read is what these commands fill in of the kinds below (field numbers of `k8s.io/api`); anything else is refused by name rather than
lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from plimsoll.embedded_cluster.api.json_documents import Json
from plimsoll.embedded_cluster.api.status import StatusError

FORM = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _BYTES = 0, 2

# What a field holds: text, a number, a number whose 0 says something, a map of texts, a list, a message; or nothing of interest.
_TEXT, _NUMBER, _COUNT, _MAP, _IGNORED = "text", "number", "count", "map", "ignored"
_Message = Mapping[int, tuple[str, Any]]
_METADATA: _Message = {1: ("name", _TEXT), 3: ("namespace", _TEXT), 11: ("labels", _MAP), 12: ("annotations", _MAP)}
_QUESTION: _Message = {1: ("metadata", _IGNORED), 2: ("spec", _IGNORED), 3: ("status", _IGNORED)}
_WHOLE: _Message = {1: ("metadata", _METADATA), 2: ("spec", _IGNORED), 3: ("status", _IGNORED)}
_PORT: _Message = {1: ("name", _TEXT), 3: ("containerPort", _NUMBER), 4: ("protocol", _TEXT)}
_CONTAINER: _Message = {
    1: ("name", _TEXT),
    2: ("image", _TEXT),
    3: ("command", [_TEXT]),
    4: ("args", [_TEXT]),
    6: ("ports", [_PORT]),
}
_POD_SPEC: _Message = {2: ("containers", [_CONTAINER]), 26: ("securityContext", _IGNORED)}
_TEMPLATE: _Message = {1: ("metadata", _METADATA), 2: ("spec", _POD_SPEC)}
_DEPLOYMENT_SPEC: _Message = {
    1: ("replicas", _COUNT),
    2: ("selector", {1: ("matchLabels", _MAP)}),
    3: ("template", _TEMPLATE),
    4: ("strategy", {1: ("type", _TEXT)}),
}
_KINDS: Mapping[str, _Message] = {
    "Namespace": _WHOLE,
    "ServiceAccount": {1: ("metadata", _METADATA)},
    "ConfigMap": {1: ("metadata", _METADATA), 2: ("data", _MAP)},
    "Deployment": {1: ("metadata", _METADATA), 2: ("spec", _DEPLOYMENT_SPEC), 3: ("status", _IGNORED)},
    # Their responses do not depend on the request.
    "SelfSubjectAccessReview": _QUESTION,
    "SelfSubjectRulesReview": _QUESTION,
    "SelfSubjectReview": _QUESTION,
}
_ENVELOPE: _Message = {1: ("type", {1: ("apiVersion", _TEXT), 2: ("kind", _TEXT)}), 2: ("raw", "bytes")}


def document(body: bytes) -> Json:
    if not body.startswith(_MAGIC):
        raise _unread("it is no message of Kubernetes")
    try:
        envelope = _read(body[len(_MAGIC) :], _ENVELOPE, "")
        identity = envelope.get("type") or {}
        kind = identity.get("kind", "")
        if kind not in _KINDS:
            raise _unread(f"a {kind or 'body'} is read as JSON only")
        return {**identity, "metadata": {}, **_read(envelope.get("raw", b""), _KINDS[kind], kind)}
    except (IndexError, UnicodeDecodeError):
        raise _unread("it ends too early") from None


def _unread(why: str) -> StatusError:
    advice = "write the object to a file (kubectl create … --dry-run=client -o yaml) and apply that"
    message = f"this body in protobuf is not understood here: {why}; {advice}"
    return StatusError(415, "UnsupportedMediaType", message)


def _read(body: bytes, message: _Message, where: str) -> Json:
    found: Json = {}
    for number, value in _fields(body):
        if number not in message:
            if value:
                raise _unread(f"field {number} of {where}")
            continue
        name, holds = message[number]
        here = f"{where}.{name}".lstrip(".")
        if holds == _MAP:
            entry = dict(_fields(value))
            found.setdefault(name, {})[entry.get(1, b"").decode()] = entry.get(2, b"").decode()
        elif isinstance(holds, list):
            found.setdefault(name, []).append(_value(value, holds[0], here))
        elif (read := _value(value, holds, here)) or holds == _COUNT:
            found[name] = read
    return found


def _value(value: Any, holds: Any, where: str) -> Any:
    if isinstance(holds, Mapping):
        return _read(value, holds, where)
    if holds == _TEXT:
        return value.decode()
    return None if holds == _IGNORED else value


def _fields(body: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers and values: numbers, or bytes."""
    position = 0
    while position < len(body):
        tag, position = _varint(body, position)
        value, position = _varint(body, position)
        if tag & 7 == _BYTES:
            if position + value > len(body):
                raise IndexError
            yield tag >> 3, body[position : position + value]
            position += value
        elif tag & 7 == _VARINT:
            yield tag >> 3, value
        else:
            raise _unread(f"the wire type {tag & 7}")


def _varint(body: bytes, position: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = body[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
