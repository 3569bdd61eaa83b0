"""Splits a list into objects while it arrives: the whole text is never in memory, and other tasks run between objects.

The items of a list usually begin alike (`{"metadata":{`, or with their kind for custom resources), so an item ends before the
next such beginning. The same bytes may occur inside an item. The reader then counts braces, each byte once, to find the end of
the item. So the cost is linear in the bytes for every layout and every content. The reflector uses one reader per reply.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Generic, TypeVar

import msgspec

from plimsoll.kube.cache.quarantine import ObjectDecoder, Quarantined, Undecodable, members
from plimsoll.kube.cache.store import Name
from plimsoll.kube.client.envelopes import ListMetadata
from plimsoll.kube.client.errors import KubeError, MalformedResponse, Unreachable, excerpt
from plimsoll.kube.codec import decode, decoder
from plimsoll.kube.types.meta import KubeObject, Part
from plimsoll.kube.types.resources import Resource

T = TypeVar("T", bound=KubeObject)

# etcd accepts objects of 1.5 MiB by default, and JSON is a few times the size of what etcd stores.
MAX_OBJECT_BYTES = 64 * 2**20
_ITEMS = re.compile(rb'"items"\s*:\s*\[\s*(?=\{)')
# The beginning of an item, up to its metadata.
_BEGINNING = rb'\{\s*(?:"(?:apiVersion|kind)"\s*:\s*"[^"\\]*"\s*,\s*)*"metadata"\s*:\s*\{'
_BEGINNING_FORM = re.compile(_BEGINNING)
_SPACED_SEPARATOR = re.compile(rb"\}\s*,\s*(?=" + _BEGINNING + rb")")
_ANY_SEPARATOR = re.compile(rb"\}\s*,\s*(?=\{)")
_SPACE = re.compile(rb"\s")
_LONGEST_BEGINNING = 1024  # of an item up to its metadata, and of a separator
_LONGEST_HEAD = 64 * 1024  # of a list up to its items
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_STRING_OR_BRACE = re.compile(_STRING.pattern + rb"|[{}]", re.DOTALL)


class Page(Part, Generic[T], frozen=True, gc=False):
    """A list, or one page of it."""

    metadata: ListMetadata = ListMetadata()
    items: tuple[T, ...] | None = None  # Go may write an empty list as null


class StaleList(KubeError):
    """The server's list is older than what it has already sent."""


class TruncatedList(Unreachable):
    """A list began to arrive, but did not come to its end."""


class Relist:
    """The progress of a list."""

    def __init__(self, held: set[Name]) -> None:
        self.resource_version = ""
        self.missing = held  # what the store holds and the list has not named yet
        self.unreadable = 0  # objects that could not even be named


class ListReader(Generic[T]):
    """Reads one reply: `feed` yields the objects that a chunk completes, `finish` returns the rest."""

    def __init__(self, resource: Resource[T]) -> None:
        # Known before the first object, except of custom resources, whose lists have it at the end.
        self.metadata: ListMetadata | None = None
        self._resource = resource
        self._objects = ObjectDecoder(resource)
        self._decoder = decoder(resource.type)
        self._text = bytearray()  # what arrived, from the beginning of the first incomplete item
        self._head = b""  # what came before the items
        self._literal = b""  # the separator of items in a compact list
        self._separator: re.Pattern[bytes] | None = None  # the separator in any other list
        self._searched = 0  # there is no separator before this position
        # Of the first incomplete item, once a separator turned out to be inside it:
        self._counting = False
        self._counted = 0  # bytes whose braces are counted
        self._depth = 0

    def feed(self, chunk: bytes) -> Iterator[T | Quarantined | Undecodable]:
        """The objects that are complete now. Take them all before the next chunk."""
        self._text += chunk
        if not (self._literal or self._separator or self._find_items()):
            self._check_size(_LONGEST_HEAD + MAX_OBJECT_BYTES)
            return
        begin, search = 0, self._searched
        while (found := self._next(search)) is not None:
            end, following = found
            search = end
            complete = self._decode(begin, end)
            if complete:
                yield from complete
                begin, search = following, following
                self._counting, self._counted, self._depth = False, 0, 0
        self._searched = max(search, len(self._text) - _LONGEST_BEGINNING) - begin
        del self._text[:begin]
        self._check_size(MAX_OBJECT_BYTES)

    def finish(self) -> tuple[ListMetadata, tuple[T | Quarantined | Undecodable, ...]]:
        """The end of the reply: the metadata, and the objects that `feed` has not returned."""
        body = self._head + bytes(self._text)
        try:
            page: Page[T] = decoder(Page[self._resource.type]).decode(body)  # type: ignore[name-defined]
        except (msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
            return self._finish_one_by_one(body, error)
        except msgspec.DecodeError as error:
            raise self._malformed(body, error) from error
        return page.metadata, page.items or ()

    def _finish_one_by_one(
        self, body: bytes, error: Exception
    ) -> tuple[ListMetadata, tuple[T | Quarantined | Undecodable, ...]]:
        parts = members(body)
        try:
            metadata = decode(parts["metadata"], ListMetadata)
        except (KeyError, msgspec.DecodeError):
            raise self._malformed(body, error) from error
        if "items" not in parts:
            raise self._malformed(body, error) from error
        return metadata, tuple(self._decode_one(item) for item in _objects_in(parts["items"]))

    def _find_items(self) -> bool:
        """Learn how the items of this list are separated, once the first one has begun."""
        items = _ITEMS.search(self._text, 0, _LONGEST_HEAD)
        if items is None:
            return False
        first = items.end()
        beginning = _BEGINNING_FORM.match(self._text, first)
        if beginning is None:
            if len(self._text) < first + _LONGEST_BEGINNING:
                return False  # it may have arrived in part only
            self._separator = _ANY_SEPARATOR
        elif _SPACE.search(beginning[0]):
            self._separator = _SPACED_SEPARATOR
        else:
            self._literal = b"}," + bytes(beginning[0])
        self._head = bytes(self._text[:first])
        with suppress(msgspec.DecodeError):
            known = decode(self._head + b"]}", Page[KubeObject]).metadata
            self.metadata = known if known.resource_version else None
        del self._text[:first]
        return True

    def _next(self, search: int) -> tuple[int, int] | None:
        """Where the text before the next separator ends, and where the text after it begins."""
        if self._literal:
            found = self._text.find(self._literal, search)
            return (found + 1, found + 2) if found >= 0 else None
        separator = self._separator.search(self._text, search) if self._separator else None
        return (separator.start() + 1, separator.end()) if separator else None

    def _decode(self, begin: int, end: int) -> list[T | Quarantined | Undecodable]:
        """The object between two positions; nothing if it is only the beginning of one."""
        if not self._counting and self._separator is not _ANY_SEPARATOR:
            try:
                return [self._decoder.decode(bytes(self._text[begin:end]))]
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self._counting = True  # the object goes on, or cannot be decoded: count from here on, each byte once
        # A separator is never inside a string, so strings are complete here.
        segment = _STRING.sub(b"", bytes(self._text[begin + self._counted : end]))
        self._depth += segment.count(b"{") - segment.count(b"}")
        self._counted = end - begin
        if self._depth > 0:
            return []
        return [self._decode_one(item) for item in _objects_in(bytes(self._text[begin:end]))]

    def _decode_one(self, item: bytes) -> T | Quarantined | Undecodable:
        try:
            return self._objects.decode(item)
        except Undecodable as error:
            return error
        except msgspec.DecodeError as error:
            raise self._malformed(item, error) from error

    def _check_size(self, limit: int) -> None:
        if len(self._text) > limit:
            raise MalformedResponse(f"{self._resource.plural}: an object of the list exceeds {limit} bytes")

    def _malformed(self, body: bytes, error: Exception) -> MalformedResponse:
        return MalformedResponse(f"{self._resource.plural}: not a complete list: {error}: {excerpt(body)}")


def _objects_in(text: bytes) -> Iterator[bytes]:
    """The objects of a list, undecoded; `text` may lack the brackets."""
    depth, begin = 0, 0
    for token in _STRING_OR_BRACE.finditer(text):
        if token[0] == b"{":
            if depth == 0:
                begin = token.start()
            depth += 1
        elif token[0] == b"}":
            depth -= 1
            if depth == 0:
                yield text[begin : token.end()]
