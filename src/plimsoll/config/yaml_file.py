"""Reads the configuration from a YAML file node by node, so that each problem names its line."""

from __future__ import annotations

import yaml

from plimsoll.config.forms import ListOf, as_word
from plimsoll.config.records import Records, RecordsError
from plimsoll.config.settings import TREE, Setting, SettingGroup, likely_meant
from plimsoll.config.sources import SourcedValue, SourceValues
from plimsoll.config.yaml_nodes import describe_node, found, is_null, scalar


def read_yaml(text: str, name: str) -> SourceValues:
    """Read the text of a file. `name` is the file's name in messages."""
    reading = SourceValues()
    try:
        documents = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reading.refuse(_at(name, mark), "", f"not valid YAML: {error.problem or error.context}")
    except yaml.YAMLError as error:
        reading.refuse(name, "", f"not valid YAML: {' '.join(str(error).split())}")
    except RecursionError:
        reading.refuse(name, "", "not valid YAML: nested too deeply")
    else:
        if len(documents) > 1:
            reading.refuse(_at(name, documents[1].start_mark), "", "a second document begins here; a file holds one")
        elif documents:
            _File(name, reading).section(documents[0], TREE)
    return reading


def _at(name: str, mark: yaml.Mark | None) -> str:
    return f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name


class _File:
    """Walks YAML nodes and sections in parallel, only as deep as the sections go, so that a recursive alias ends."""

    def __init__(self, name: str, reading: SourceValues) -> None:
        self._name = name
        self._reading = reading

    def section(self, node: yaml.Node, group: SettingGroup) -> None:
        if is_null(node):  # a section whose every line is commented out
            return
        if not isinstance(node, yaml.MappingNode):
            members = ", ".join(group.members)
            self._refuse(node, group.key, f"{describe_node(node)} where a section with keys is expected ({members})")
            return
        seen: dict[str, yaml.Node] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._refuse(key_node, group.key, f"{describe_node(key_node)} where a key is expected")
                continue
            name = key_node.value
            key = f"{group.key}.{as_word(name)}" if group.key else as_word(name)
            if name in seen:
                first = seen[name].start_mark.line + 1
                self._refuse(key_node, key, f"given twice ({found(value_node)} here); the first is in line {first}")
                continue
            seen[name] = key_node
            match group.members.get(name):
                case None:
                    self._refuse(key_node, key, f"unknown key (value {found(value_node)}); {likely_meant(key, group)}")
                case SettingGroup() as inner:
                    self.section(value_node, inner)
                case setting:
                    self._setting(value_node, setting)

    def _setting(self, node: yaml.Node, setting: Setting) -> None:
        form = setting.form
        try:
            if is_null(node):
                raise ValueError(f"no value; {form.expected} is expected (leave the key out for the default)")  # noqa: TRY301
            value: object
            match form:
                case ListOf():
                    value = self._list(node, setting, form)
                case Records():
                    value = form.of_node(node)
                case _:
                    value = scalar(node, form)
        except RecordsError as error:
            for where, message in error.refusals:
                self._refuse(where, setting.key, message)
        except ValueError as error:
            self._refuse(node, setting.key, str(error))
        else:
            if value is not None:
                self._reading.values[setting.key] = SourcedValue(value, self._where(node))

    def _list(self, node: yaml.Node, setting: Setting, form: ListOf) -> tuple[object, ...] | None:
        """The list, or None if items are invalid; each problem is reported at its line."""
        if not isinstance(node, yaml.SequenceNode):
            hint = f"; write [{node.value}]" if isinstance(node, yaml.ScalarNode) else ""
            raise ValueError(f"{describe_node(node)} where a list is expected{hint}")  # noqa: TRY004  (a person's slip)
        items: list[object] = []
        for item in node.value:
            try:
                items.append(scalar(item, form.item))
            except ValueError as error:
                self._refuse(item, setting.key, str(error))
        return form.of(items) if len(items) == len(node.value) else None

    def _where(self, node: yaml.Node) -> str:
        return _at(self._name, node.start_mark)

    def _refuse(self, node: yaml.Node, key: str, message: str) -> None:
        self._reading.refuse(self._where(node), key, message)
