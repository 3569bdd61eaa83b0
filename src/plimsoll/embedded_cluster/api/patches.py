"""Merge patches (RFC 7386) and JSON patches (RFC 6902)."""

from __future__ import annotations

from typing import Any

from plimsoll.embedded_cluster.api.json_documents import Json, deep_copy
from plimsoll.embedded_cluster.api.status import StatusError, bad_request, unreasoned_invalid


def merge_patched(document: Any, patch: Any) -> Any:
    """A merge patch applied; what it does not touch is shared with the original."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for field, value in patch.items():
        if value is None:
            result.pop(field, None)
        else:
            result[field] = merge_patched(result.get(field), value)
    return result


class _DoesNotFitError(Exception):
    pass


def json_patched(document: Json, operations: Any) -> Json:
    """A JSON patch applied to a copy; 422 where it does not fit the document, 400 where it is no patch."""
    if not isinstance(operations, list) or any(not isinstance(one, dict) for one in operations):
        raise bad_request("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    result: Any = deep_copy(document)
    for operation in operations:
        try:
            result = _operated(result, operation)
        except _DoesNotFitError as error:
            raise _refusal(str(error)) from None
    if not isinstance(result, dict):
        raise bad_request("the patch leaves no object")
    return result


def _refusal(message: str) -> StatusError:
    return unreasoned_invalid(f"the server rejected our request due to an error in our request: {message}")


def _operated(document: Any, operation: Json) -> Any:
    name, path = operation.get("op"), operation.get("path")
    if not isinstance(path, str):
        raise _DoesNotFitError("an operation has no path")
    tokens = _tokens(path)
    match name:
        case "test":
            found = _found(document, tokens, missing_is_null=True)
            if found != operation.get("value"):
                raise _DoesNotFitError(f"testing value {path} failed")
            return document
        case "add":
            return _added(document, tokens, deep_copy(operation.get("value")))
        case "replace":
            _found(document, tokens)
            return _replaced(document, tokens, deep_copy(operation.get("value")))
        case "remove":
            return _removed(document, tokens)
        case "move" | "copy":
            origin = _tokens(str(operation.get("from")))
            value = deep_copy(_found(document, origin))
            if name == "move":
                document = _removed(document, origin)
            return _added(document, tokens, value)
    raise _DoesNotFitError(f"Unexpected kind: {name}")


def _tokens(path: str) -> list[str]:
    if not path:
        return []
    if not path.startswith("/"):
        raise _DoesNotFitError(f"the path {path!r} does not begin with a slash")
    return [token.replace("~1", "/").replace("~0", "~") for token in path[1:].split("/")]


def _found(document: Any, tokens: list[str], *, missing_is_null: bool = False) -> Any:
    for token in tokens:
        if isinstance(document, dict) and token in document:
            document = document[token]
        elif isinstance(document, list) and token.isdecimal() and int(token) < len(document):
            document = document[int(token)]
        elif missing_is_null:
            return None
        else:
            raise _DoesNotFitError(f"the path /{'/'.join(tokens)} does not exist")
    return document


def _parent(document: Any, tokens: list[str]) -> Any:
    return _found(document, tokens[:-1])


def _added(document: Any, tokens: list[str], value: Any) -> Any:
    if not tokens:
        return value
    parent, last = _parent(document, tokens), tokens[-1]
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list) and (last == "-" or (last.isdecimal() and int(last) <= len(parent))):
        parent.insert(len(parent) if last == "-" else int(last), value)
    else:
        raise _DoesNotFitError(f"nothing can be added at /{'/'.join(tokens)}")
    return document


def _replaced(document: Any, tokens: list[str], value: Any) -> Any:
    if not tokens:
        return value
    parent = _parent(document, tokens)
    parent[int(tokens[-1]) if isinstance(parent, list) else tokens[-1]] = value
    return document


def _removed(document: Any, tokens: list[str]) -> Any:
    _found(document, tokens)
    parent = _parent(document, tokens)
    del parent[int(tokens[-1]) if isinstance(parent, list) else tokens[-1]]
    return document
