"""Lists whose items are sections with their own keys, such as offerings.

In a file it is a YAML list. A variable or an option holds the same in one line: `[{id: small, cpu: 2, memory: 8Gi}]`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

import msgspec
import yaml
from msgspec import NODEFAULT

from plimsoll.config.forms import Form, Text, as_word, form_of, nearest, quoted
from plimsoll.config.section import Section
from plimsoll.config.yaml_nodes import describe_node, is_null, scalar

_WORD = Text()


class RecordsError(ValueError):
    """All problems of a list, each with the YAML node that has it."""

    def __init__(self, refusals: Sequence[tuple[yaml.Node, str]]) -> None:
        self.refusals = tuple(refusals)
        super().__init__("; ".join(message for _, message in refusals))


def section_in(annotation: Any) -> type[Section] | None:
    """The type of the items, if the annotation is a list of sections."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) is not tuple:
        return None
    item = get_args(annotation)[0]
    return item if isinstance(item, type) and issubclass(item, Section) else None


@dataclass(frozen=True)
class Records:
    """The first key of a section is its name and must be unique."""

    item: type[Section]

    @property
    def expected(self) -> str:
        return f"a list of sections with the keys {', '.join(field.encode_name for field in self._fields)}"

    def read(self, text: str) -> tuple[Any, ...]:
        try:
            node = yaml.compose(text or "[]", Loader=yaml.SafeLoader)
        except (yaml.YAMLError, RecursionError):
            raise ValueError(f"{quoted(text)} is not YAML; {self.expected} is expected") from None
        return self.of_node(node)

    def of_node(self, node: yaml.Node) -> tuple[Any, ...]:
        if not isinstance(node, yaml.SequenceNode):
            raise RecordsError([(node, f"{describe_node(node)} where {self.expected} is expected")])
        refusals: list[tuple[yaml.Node, str]] = []
        items: list[Section] = []
        names: dict[Any, int] = {}
        for item_node in node.value:
            try:
                item = self._item(item_node)
            except RecordsError as error:
                refusals += error.refusals
                continue
            name = getattr(item, self._fields[0].name)
            if name in names:
                refusals.append((item_node, f"{quoted(str(name))} is in the list twice"))
            names[name] = len(items)
            items.append(item)
        if refusals:
            raise RecordsError(refusals)
        return tuple(items)

    def plain(self, value: Sequence[Any]) -> list[dict[str, Any]]:
        return [self._plain_item(item) for item in value]

    def _plain_item(self, item: Section) -> dict[str, Any]:
        shown_fields = {}
        for field in self._fields:
            value = getattr(item, field.name)
            if field.required or value != _default(field):
                shown_fields[field.encode_name] = (
                    value if isinstance(value, Mapping) else form_of(field.type).plain(value)
                )
        return shown_fields

    def _item(self, node: yaml.Node) -> Section:
        if not isinstance(node, yaml.MappingNode):
            raise RecordsError([(node, f"{describe_node(node)} where {self._keys} is expected")])
        refusals: list[tuple[yaml.Node, str]] = []
        values: dict[str, Any] = {}
        by_name = {field.encode_name: field for field in self._fields}
        for key_node, value_node in node.value:
            word = key_node.value if isinstance(key_node, yaml.ScalarNode) else describe_node(key_node)
            field = by_name.get(word)
            if field is None:
                guess = nearest(str(word), by_name)
                hint = f"did you mean {guess}?" if guess else f"valid: {', '.join(by_name)}"
                refusals.append((key_node, f"{as_word(str(word))} is an unknown key; {hint}"))
                continue
            if field.name in values:
                refusals.append((key_node, f"{word} is given twice"))
                continue
            try:
                values[field.name] = _value(value_node, field)
            except RecordsError as error:
                refusals += error.refusals
            except ValueError as error:
                refusals.append((value_node, f"{word}: {error}"))
        if not refusals:
            missing = [field.encode_name for field in self._fields if field.required and field.name not in values]
            if missing:
                refusals.append((node, f"{', '.join(missing)} missing; expected is {self._keys}"))
        if refusals:
            raise RecordsError(refusals)
        return self.item(**values)

    @property
    def _fields(self) -> tuple[msgspec.structs.FieldInfo, ...]:
        return msgspec.structs.fields(self.item)

    @property
    def _keys(self) -> str:
        return f"a section with the keys {', '.join(field.encode_name for field in self._fields)}"


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default is not NODEFAULT else field.default_factory()


def _value(node: yaml.Node, field: msgspec.structs.FieldInfo) -> Any:
    if get_origin(field.type) is Mapping:
        return _words(node, field.encode_name)
    form: Form = form_of(field.type)
    if is_null(node):
        raise ValueError(f"no value; {form.expected} is expected")
    return scalar(node, form)


def _words(node: yaml.Node, name: str) -> dict[str, str]:
    """A mapping of strings to strings, such as labels."""
    if not isinstance(node, yaml.MappingNode):
        raise RecordsError([(node, f"{name}: {describe_node(node)} where texts under keys are expected")])
    refusals: list[tuple[yaml.Node, str]] = []
    words: dict[str, str] = {}
    for key_node, value_node in node.value:
        try:
            words[str(scalar(key_node, _WORD))] = str(scalar(value_node, _WORD))
        except ValueError as error:
            refusals.append((value_node, f"{name}: {error}"))
    if refusals:
        raise RecordsError(refusals)
    return words
