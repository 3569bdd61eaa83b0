"""Reads one value from a YAML node, and describes nodes in messages."""

from __future__ import annotations

import yaml

from plimsoll.config.forms import Decimal, Form, Number, Span, Switch, Text, quoted

_TAG = "tag:yaml.org,2002:"
_NAMES = {"null": "nothing", "bool": "a boolean", "int": "a number", "float": "a number", "timestamp": "a date"}


def scalar(node: yaml.Node, form: Form) -> object:
    if not isinstance(node, yaml.ScalarNode):
        raise ValueError(f"{describe_node(node)} where {form.expected} is expected")  # noqa: TRY004
    tag = node.tag.removeprefix(_TAG)
    if tag not in (*_NAMES, "str"):
        raise ValueError(f"{quoted(node.value)} is tagged {node.tag}; plain values alone are read")
    if isinstance(form, Switch | Number | Decimal):
        if tag == "str" and node.style is not None:
            raise ValueError(f"{quoted(node.value)} is in quotes, which makes it a text; {form.expected} is expected")
    elif tag != "str" and not isinstance(form, Span) and not (isinstance(form, Text) and form.numbers):
        raise ValueError(f"{node.value} is {_NAMES[tag]} to YAML; {form.expected} is expected: put it in quotes")
    return form.read(node.value)


def is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == f"{_TAG}null"


def describe_node(node: yaml.Node) -> str:
    match node:
        case yaml.ScalarNode():
            return quoted(node.value)
        case yaml.SequenceNode():
            return "a list"
        case _:
            return "a section with keys"


def found(node: yaml.Node) -> str:
    return "none" if is_null(node) else describe_node(node)
