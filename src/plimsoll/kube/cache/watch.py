"""Decodes a watch stream: chunks of bytes → lines → typed events. Reflectors use it."""

from __future__ import annotations

from typing import Generic, NoReturn, TypeVar

import msgspec
from msgspec import Struct

from plimsoll.kube.cache.quarantine import ObjectDecoder, Quarantined, members
from plimsoll.kube.client.envelopes import WatchEvent
from plimsoll.kube.client.errors import ApiError, MalformedResponse, error_of_status, excerpt, parse_status
from plimsoll.kube.codec import decode, decoder
from plimsoll.kube.types.meta import KubeObject, Metadata, Part
from plimsoll.kube.types.resources import Resource

T = TypeVar("T", bound=KubeObject)

# etcd accepts requests of 1.5 MiB by default, and JSON is a few times the size of what etcd stores.
MAX_LINE_BYTES = 64 * 2**20
INITIAL_EVENTS_END = "k8s.io/initial-events-end"

ADDED, MODIFIED, DELETED, BOOKMARK, ERROR = "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"


class Lines:
    """Splits a stream of chunks into lines."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []  # pieces of the incomplete last line
        self._begun_bytes = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, in order and without line ends."""
        first, *others = chunk.split(b"\n")
        if not others:
            self._begun.append(first)
            self._begun_bytes += len(first)
            if self._begun_bytes > MAX_LINE_BYTES:
                raise MalformedResponse(f"a line of the watch stream exceeds {self._begun_bytes} bytes")
            return []
        self._begun.append(first)
        lines = [b"".join(self._begun), *others]
        last = lines.pop()
        self._begun = [last] if last else []
        self._begun_bytes = len(last)
        return [line for line in lines if line]


class Event(Part, Generic[T], frozen=True, gc=False):
    """A change of one object."""

    type: str
    object: T


class QuarantinedEvent(Struct, frozen=True):
    """A change of an object that cannot be decoded."""

    type: str
    object: Quarantined


class Bookmark(Part, frozen=True, gc=False):
    """The resourceVersion that the stream has reached. The rest of a bookmark's object is meaningless."""

    resource_version: str
    ends_initial_events: bool


class _Mark(Part, frozen=True, gc=False):
    metadata: Metadata = Metadata()


class EventDecoder(Generic[T]):
    """Decodes the lines of a watch on one kind."""

    def __init__(self, resource: Resource[T]) -> None:
        self._resource = resource
        self._objects = ObjectDecoder(resource)
        self._decoder: msgspec.json.Decoder[Event[T]] = decoder(Event[resource.type])  # type: ignore[name-defined]

    def decode(self, line: bytes) -> Event[T] | QuarantinedEvent | Bookmark:
        """Decode a line. An ERROR event is raised as the error that it carries, a 410 as `Gone`.

        Raises Undecodable if not even the envelope of the object can be read.
        """
        try:
            return self._decode(line)
        except RecursionError:
            return self._quarantined(line)

    def _decode(self, line: bytes) -> Event[T] | QuarantinedEvent | Bookmark:
        # The server writes the type first. Checking it before decoding spares the bulk of the events a second pass.
        if not line.startswith((b'{"type":"BOOKMARK"', b'{"type":"ERROR"')):
            try:
                event = self._decoder.decode(line)
            except msgspec.ValidationError:
                pass
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise MalformedResponse(
                    f"{self._resource.plural}: not a watch event: {error}: {excerpt(line)}"
                ) from error
            else:
                if event.type in (ADDED, MODIFIED, DELETED):
                    return event
        return self._decode_by_type(line)

    def _quarantined(self, line: bytes) -> QuarantinedEvent:
        """A line that is nested too deeply to be decoded."""
        parts = members(line)
        decoded = self._objects.decode(parts.get("object", b""))
        kind = parts.get("type", b"").strip(b'"').decode("ascii", "replace")
        if not isinstance(decoded, Quarantined) or kind not in (ADDED, MODIFIED, DELETED):
            raise MalformedResponse(f"{self._resource.plural}: not a watch event: {excerpt(line)}")
        return QuarantinedEvent(kind, decoded)

    def _decode_by_type(self, line: bytes) -> Event[T] | QuarantinedEvent | Bookmark:
        plural = self._resource.plural
        try:
            event = decode(line, WatchEvent)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise MalformedResponse(f"{plural}: not a watch event: {error}: {excerpt(line)}") from error
        if event.type == BOOKMARK:
            try:
                metadata = decode(event.object, _Mark).metadata
            except msgspec.ValidationError as error:
                raise MalformedResponse(f"{plural}: not a bookmark: {error}: {excerpt(line)}") from error
            return Bookmark(metadata.resource_version, metadata.annotations.get(INITIAL_EVENTS_END) == "true")
        if event.type == ERROR:
            _raise_status(event.object, plural)
        if event.type in (ADDED, MODIFIED, DELETED):
            decoded = self._objects.decode(event.object)
            if isinstance(decoded, Quarantined):
                return QuarantinedEvent(event.type, decoded)
            return Event(event.type, decoded)
        raise MalformedResponse(f"{plural}: watch event of unknown type {event.type!r}: {excerpt(line)}")


def _raise_status(data: msgspec.Raw, plural: str) -> NoReturn:
    status = parse_status(data)
    if status is None:
        raise ApiError(500, "", f"the watch ended with an error that is not a Status: {excerpt(bytes(data))}")
    raise error_of_status(status, request=f"watch {plural}")
