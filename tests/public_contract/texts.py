"""Texts of the operator's source, found by what they look like or by where they stand, never by the name of a constant."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from tests.public_contract.source_tree import Function, Module, field_names
from tests.public_contract.sources import TYPE_ARGUMENTS, operator_modules, shapes, tree

CODE = re.compile(r"[A-Z][a-z0-9]+([A-Z][A-Za-z0-9]*)*")
Dictionary = tuple[Module, dict[str, ast.expr]]


@cache
def all_texts() -> frozenset[str]:
    """Every text in the operator's source, put together where it is written in parts."""
    found: set[str] = set()
    for module in operator_modules():
        for node in module.nodes:
            part = isinstance(module.parents.get(node), ast.JoinedStr | ast.BinOp | ast.FormattedValue)
            if isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp) and not part:
                found |= tree().texts(node, module)
    return frozenset(found)


def matching(pattern: str) -> list[str]:
    return sorted(text for text in all_texts() if re.fullmatch(pattern, text))


def words() -> frozenset[str]:
    """Every word in CamelCase, apart from names of Python types."""
    found: set[str] = set()
    for module in operator_modules():
        for node in module.nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
                parent = module.parents[node]
                names_a_type = isinstance(parent, ast.Call) and ast.unparse(parent.func) in TYPE_ARGUMENTS
                if not names_a_type and not isinstance(parent, ast.JoinedStr):
                    found.add(node.value)
    return frozenset(found)


def codes(found: set[str] | frozenset[str]) -> set[str]:
    """Those that are a word in CamelCase."""
    return {text for text in found if CODE.fullmatch(text)}


def values_of(fields: set[str] | frozenset[str], name: str, *, exact: bool = False) -> frozenset[str]:
    """The texts that a field is given wherever a struct with these fields is made."""
    found: frozenset[str] = frozenset()
    for _, shape in shapes(fields, exact=exact):
        found |= tree().arguments(shape.name, name, field_names(shape).index(name))
    return found


@cache
def _dictionaries() -> tuple[Dictionary, ...]:
    """Every mapping that is written out in the source, by the texts of its keys."""
    found: list[Dictionary] = []
    for module in operator_modules():
        for node in module.nodes:
            if isinstance(node, ast.Dict):
                pairs = zip(node.keys, node.values, strict=True)
                found.append((module, {text: value for key, value in pairs for text in tree().texts(key, module)}))
    return tuple(found)


def _having(*keys: str) -> Iterator[Dictionary]:
    return ((module, found) for module, found in _dictionaries() if found.keys() >= set(keys))


def keys_beside(*keys: str) -> list[str]:
    """All keys of the mappings that have these among them."""
    return sorted({key for _, found in _having(*keys) for key in found})


def at_key(key: str, *, beside: tuple[str, ...] = ()) -> set[str]:
    """The texts under a key of mappings that also have the keys `beside`."""
    found: set[str] = set()
    for module, pairs in _having(key, *beside):
        value = pairs[key]
        for one in value.elts if isinstance(value, ast.List | ast.Tuple) else (value,):
            found |= tree().texts(one, module)
    return found


def _keywords(name: str) -> Iterator[tuple[Module, ast.expr]]:
    for module in operator_modules():
        for node in module.nodes:
            if isinstance(node, ast.keyword) and node.arg == name:
                yield module, node.value


def at_keyword(name: str) -> set[str]:
    """The texts that are passed under a keyword, to whatever function."""
    return {text for module, value in _keywords(name) for text in tree().texts(value, module)}


def keys_at_keyword(name: str) -> list[str]:
    """The keys of the mappings that are passed under a keyword, to whatever function."""
    found: set[str] = set()
    for module, value in _keywords(name):
        mappings: list[ast.expr] = [value]
        if isinstance(value, ast.Name):
            function = next((one for one in module.around(value) if isinstance(one, Function)), None)
            mappings = module.locals_of(function).get(value.id, []) if function is not None else []
        for mapping in mappings:
            for key in mapping.keys if isinstance(mapping, ast.Dict) else ():
                found |= tree().texts(key, module)
    return sorted(found)


@cache
def _collections() -> tuple[frozenset[str], ...]:
    """The texts in each tuple, list, set, `Literal`, enumeration and mapping (its keys) of the source."""
    found: list[frozenset[str]] = []
    for module in tree().modules.values():
        for node in module.nodes:
            match node:
                case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
                    values: list[ast.expr | None] = [*parts]
                case ast.Dict(keys=keys):
                    values = [*keys]
                case ast.ClassDef(body=body):
                    values = [one.value for one in body if isinstance(one, ast.Assign)]
                case _:
                    continue
            found.append(frozenset(text for value in values for text in tree().texts(value, module)))
    return tuple(found)


def members(*some: str) -> list[str]:
    """All members of the collections that have these among them."""
    return sorted({text for found in _collections() if found >= set(some) for text in found})


def names_of_caught_errors() -> list[str]:
    """Classes of exceptions whose name becomes a code: `except (Denied, …) as error: f(type(error).__name__)`."""
    found: set[str] = set()
    for module in operator_modules():
        for node in module.nodes:
            if not (isinstance(node, ast.ExceptHandler) and node.name and isinstance(node.type, ast.Tuple)):
                continue
            passed = f"type({node.name}).__name__"
            calls = (one for one in ast.walk(node) if isinstance(one, ast.Call))
            if any(ast.unparse(argument) == passed for call in calls for argument in call.args):
                found |= {ast.unparse(one) for one in node.type.elts}
    return sorted(found)
