"""Parse files of Kubernetes objects and keep the position of every value for error messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

# libyaml reads a snapshot of 50,000 pods in seconds instead of minutes.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

LIST = "List"  # as kubectl prints several objects
SNAPSHOT = "Snapshot"  # our own format, with the time of the snapshot


class BadFileError(Exception):
    """A file that cannot be parsed; the message has file and line."""


class FilePosition(Struct, frozen=True):
    """A position in a file."""

    file: str
    line: int  # from 1
    start: int = 0  # character offset of the value
    end: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Document(Struct, frozen=True):
    """One object of a file, undecoded, with positions."""

    body: dict[str, Any]
    node: Any  # yaml's node, for the places of values
    file: str

    @property
    def kind(self) -> str:
        return str(self.body.get("kind", ""))

    @property
    def api_version(self) -> str:
        return str(self.body.get("apiVersion", ""))

    @property
    def title(self) -> str:
        """Kind and name, such as Deployment shop/web."""
        meta = self.body.get("metadata")
        meta = meta if isinstance(meta, Mapping) else {}
        name = meta.get("name") or meta.get("generateName") or "(no name)"
        namespace = meta.get("namespace")
        return f"{self.kind} {namespace}/{name}" if namespace else f"{self.kind} {name}"

    def place(self, *path: str) -> FilePosition:
        """The position of the value at this path, or of its deepest existing parent."""
        node = self.node
        for step in path:
            found = _child(node, step)
            if found is None:
                break
            node = found
        begin, end = node.start_mark, node.end_mark
        return FilePosition(self.file, begin.line + 1, begin.index, end.index)


def documents_in(paths: Sequence[Path], stdin: str | None = None) -> Iterator[Document]:
    """All objects of these files, with lists flattened. `-` reads `stdin`."""
    for path in paths:
        yield from parse(_text(path, stdin), "standard input" if str(path) == "-" else str(path))


def parse(text: str, name: str) -> Iterator[Document]:
    try:
        loader = _Loader(text)
        try:
            while loader.check_node():
                node = loader.get_node()
                yield from _taken_apart(loader.construct_document(node), node, name)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark is not None else name
        raise BadFileError(f"{where}: not YAML or JSON: {getattr(error, 'problem', None) or error}") from None


def _text(path: Path, stdin: str | None) -> str:
    if str(path) == "-":
        return stdin or ""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadFileError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadFileError(f"{path}: not text in UTF-8") from None


def _taken_apart(body: Any, node: Any, name: str) -> Iterator[Document]:
    if body is None:
        return  # an empty document between two separators
    line = node.start_mark.line + 1
    if not isinstance(body, dict) or not isinstance(body.get("kind"), str):
        raise BadFileError(f'{name}:{line}: not a Kubernetes object: expected a mapping with "apiVersion" and "kind"')
    if body["kind"] not in (LIST, SNAPSHOT):
        yield Document(body, node, name)
        return
    if body["kind"] == SNAPSHOT:
        yield Document({key: value for key, value in body.items() if key != "items"}, node, name)
    items, item_nodes = body.get("items") or [], _child(node, "items")
    if not isinstance(items, list):
        raise BadFileError(f'{name}:{line}: "items" of {body["kind"]} must be a list')
    for item, item_node in zip(items, item_nodes.value if item_nodes is not None else (), strict=True):
        yield from _taken_apart(item, item_node, name)


def _child(node: Any, key: str) -> Any:
    if not isinstance(node, yaml.MappingNode):
        return None
    for name, value in node.value:
        if name.value == key:
            return value
    return None
