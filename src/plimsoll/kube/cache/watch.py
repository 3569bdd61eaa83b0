"""Decodes a watch stream: chunks of bytes → lines → typed events. Reflectors use it."""

from __future__ import annotations

from typing import Any, Generic, NoReturn, TypeVar

import msgspec

from plimsoll.kube.client.envelopes import WatchEvent
from plimsoll.kube.client.errors import ApiError, KubeError, MalformedResponse, error_of_status, excerpt, parse_status
from plimsoll.kube.codec import decode, decoder
from plimsoll.kube.types.meta import KubeObject, Metadata, Part
from plimsoll.kube.types.resources import Resource

T = TypeVar("T", bound=KubeObject)

# etcd accepts requests of 1.5 MiB by default, and JSON is a few times the size of what etcd stores.
MAX_LINE_BYTES = 64 * 2**20
INITIAL_EVENTS_END = "k8s.io/initial-events-end"

ADDED, MODIFIED, DELETED, BOOKMARK, ERROR = "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"


class Undecodable(KubeError):
    """The server sent an object that our types cannot hold. Passing over it would leave the view wrong in silence."""


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
        self._decoder: msgspec.json.Decoder[Event[T]] = decoder(Event[resource.type])  # type: ignore[name-defined]

    def decode(self, line: bytes) -> Event[T] | Bookmark:
        """Decode a line. An ERROR event is raised as the error that it carries, a 410 as `Gone`."""
        try:
            return self._decode(line)
        except RecursionError as error:
            raise too_deep(self._resource) from error

    def _decode(self, line: bytes) -> Event[T] | Bookmark:
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

    def _decode_by_type(self, line: bytes) -> Event[T] | Bookmark:
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
            return Event(event.type, decode_object(event.object, self._resource))
        raise MalformedResponse(f"{plural}: watch event of unknown type {event.type!r}: {excerpt(line)}")


def decode_object(data: msgspec.Raw | bytes, resource: Resource[T]) -> T:
    try:
        return decoder(resource.type).decode(data)
    except (msgspec.ValidationError, UnicodeDecodeError) as error:
        raise Undecodable(f"{_name_of(data, resource)} cannot be read: {error}") from error


def too_deep(resource: Resource[Any]) -> Undecodable:
    """Nobody's fields are nested a thousand levels deep, but a custom resource without a schema lets anyone write such an object."""
    return Undecodable(f"one of the {resource.plural} cannot be read: it is nested too deeply; delete or mend it")


def _name_of(data: msgspec.Raw | bytes, resource: Resource[T]) -> str:
    try:
        metadata = decode(data, _Mark).metadata
    except msgspec.ValidationError:
        return f"one of the {resource.plural}"
    return f"{resource.kind} {f'{metadata.namespace}/' if metadata.namespace else ''}{metadata.name}"


def _raise_status(data: msgspec.Raw, plural: str) -> NoReturn:
    status = parse_status(data)
    if status is None:
        raise ApiError(500, "", f"the watch ended with an error that is not a Status: {excerpt(bytes(data))}")
    raise error_of_status(status, request=f"watch {plural}")
