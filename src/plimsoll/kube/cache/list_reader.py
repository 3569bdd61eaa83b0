"""A list taken apart while it arrives: no one ever holds all of its text, and others get their turn between its objects.

The API server writes a list as one JSON object, and so do we read it; only its items are wanted one by one. They all begin
alike (`{"metadata":{`, or with their kind where it is a custom resource), so an item ends before the next such beginning.
The same bytes may also stand inside an item, but then what is before them is no whole object, and the search goes on.
Where a list is laid out in another way nothing is found, and it is decoded in one piece at its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Generic, TypeVar

import msgspec

from plimsoll.kube.cache.store import Name
from plimsoll.kube.cache.watch import decode_object, too_deep
from plimsoll.kube.client.envelopes import ListMetadata
from plimsoll.kube.client.errors import KubeError, MalformedResponse, Unreachable, excerpt
from plimsoll.kube.codec import decode, decoder
from plimsoll.kube.types.meta import KubeObject, Part
from plimsoll.kube.types.resources import Resource

T = TypeVar("T", bound=KubeObject)

_ITEMS = b'"items":['
_METADATA = b'"metadata":{'
_LONGEST_BEGINNING = 1024  # of a list up to its items, and of an item up to its metadata


class Page(Part, Generic[T], frozen=True, gc=False):
    """A list, or the part of it that one request gives."""

    metadata: ListMetadata = ListMetadata()
    items: tuple[T, ...] | None = None  # Go writes an empty list as null where nobody takes care


class _RawPage(Part, frozen=True, gc=False):
    items: tuple[msgspec.Raw, ...] = ()


class StaleList(KubeError):
    """The server answered with a list older than what it has already shown us."""


class TruncatedList(Unreachable):
    """A list began to arrive and did not come to its end."""


class Relist:
    """A list under way."""

    def __init__(self, held: set[Name]) -> None:
        self.resource_version = ""
        self.missing = held  # what the store holds and the list has not named yet


class ListReader(Generic[T]):
    """Reads one reply: `feed` gives the objects that a chunk completes, `finish` what is left at the end."""

    def __init__(self, resource: Resource[T]) -> None:
        # Known before the first object, except of custom resources, whose lists name it last.
        self.metadata: ListMetadata | None = None
        self._resource = resource
        self._decoder = decoder(resource.type)
        self._text = bytearray()  # what came, from the beginning of the first item that is not whole
        self._head = b""  # what came before the items
        self._boundary = b""  # the end of an item and the beginning of the next
        self._searched = 0  # up to here there is no boundary that counts

    def feed(self, chunk: bytes) -> Iterator[T]:
        """The objects that are whole now. Take them all before the next chunk."""
        self._text += chunk
        if not self._boundary and not self._find_boundary():
            return
        begin, search = 0, self._searched
        while (found := self._text.find(self._boundary, search)) >= 0:
            search = found + len(self._boundary)
            obj = self._decode(bytes(self._text[begin : found + 1]))
            if obj is not None:
                yield obj
                begin = found + 2  # behind the brace and the comma
        self._searched = max(search, len(self._text) - len(self._boundary) + 1) - begin
        del self._text[:begin]

    def finish(self) -> Page[T]:
        """The end of the reply: the metadata, and the last object or all that were not told apart."""
        body = self._head + bytes(self._text)
        try:
            page: Page[T] = decoder(Page[self._resource.type]).decode(body)  # type: ignore[name-defined]
        except msgspec.ValidationError as error:
            self._name_the_undecodable(body)
            raise self._garbled(body, error) from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._garbled(body, error) from error
        except RecursionError as error:
            raise too_deep(self._resource) from error
        return page

    def _find_boundary(self) -> bool:
        """How the items of this list begin, once the first one has."""
        items = self._text.find(_ITEMS, 0, _LONGEST_BEGINNING)
        if items < 0:
            return False
        first = items + len(_ITEMS)
        metadata = self._text.find(_METADATA, first, first + _LONGEST_BEGINNING)
        if metadata < 0 or self._text[first : first + 1] != b"{":
            return False
        self._head = bytes(self._text[:first])
        self._boundary = b"}," + bytes(self._text[first : metadata + len(_METADATA)])
        with suppress(msgspec.DecodeError):
            known = decode(self._head + b"]}", Page[KubeObject]).metadata
            self.metadata = known if known.resource_version else None
        del self._text[:first]
        return True

    def _decode(self, text: bytes) -> T | None:
        """The object, or None where the text is only the beginning of one."""
        try:
            return self._decoder.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            try:
                decode(text, msgspec.Raw)
            except msgspec.DecodeError:
                return None
            return decode_object(text, self._resource)  # tells what is wrong with it
        except RecursionError as error:
            raise too_deep(self._resource) from error

    def _name_the_undecodable(self, body: bytes) -> None:
        with suppress(msgspec.ValidationError):
            for item in decode(body, _RawPage).items:
                decode_object(item, self._resource)

    def _garbled(self, body: bytes, error: Exception) -> MalformedResponse:
        return MalformedResponse(f"{self._resource.plural}: not a whole list: {error}: {excerpt(body)}")
