"""All configuration keys as a flat list, each with its path, environment variable, default and form."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, cast

import msgspec

from plimsoll.config import Config
from plimsoll.config.forms import Form, description_of, form_of, nearest
from plimsoll.config.records import Records, section_in
from plimsoll.config.section import Section

VARIABLE_PREFIX = "PLIMSOLL_"


@dataclass(frozen=True)
class Setting:
    key: str  # as the file spells it, with dots between the levels: operator.leaderElection.leaseName
    attributes: tuple[str, ...]  # where the typed tree holds it
    default: Any
    form: Form
    description: str

    @property
    def variable(self) -> str:
        """The environment variable: the key in upper case, with an underscore before each word."""
        return VARIABLE_PREFIX + re.sub(r"\.|(?<=[a-z0-9])(?=[A-Z])", "_", self.key).upper()

    def value_in(self, config: Config) -> Any:
        return reduce(getattr, self.attributes, config)


@dataclass(frozen=True)
class SettingGroup:
    """A section of the file with its keys and sections, under the names that the file uses."""

    key: str  # empty for the whole file
    attributes: tuple[str, ...]
    type: type[Section]
    members: Mapping[str, Setting | SettingGroup]

    def groups(self) -> Iterator[SettingGroup]:
        """This section and all sections inside it, in the order of the file."""
        yield self
        for member in self.members.values():
            if isinstance(member, SettingGroup):
                yield from member.groups()

    def settings(self) -> Iterator[Setting]:
        for member in self.members.values():
            if isinstance(member, Setting):
                yield member
            else:
                yield from member.settings()

    def build(self, values: Mapping[str, Any]) -> Section:
        """Build the typed section from a value for each key."""
        return self.type(
            **{
                member.attributes[-1]: values[member.key] if isinstance(member, Setting) else member.build(values)
                for member in self.members.values()
            }
        )


def _group(key: str, attributes: tuple[str, ...], kind: type[Section]) -> SettingGroup:
    members: dict[str, Setting | SettingGroup] = {}
    for info in msgspec.structs.fields(kind):
        path = f"{key}.{info.encode_name}" if key else info.encode_name
        inner = (*attributes, info.name)
        if isinstance(info.type, type) and issubclass(info.type, Section):
            members[info.encode_name] = _group(path, inner, info.type)
        else:
            record = section_in(info.type)
            form = Records(record) if record else form_of(info.type)
            members[info.encode_name] = Setting(path, inner, info.default, form, description_of(info.type))
    return SettingGroup(key, attributes, kind, members)


TREE = _group("", (), Config)
SETTINGS: Mapping[str, Setting] = {setting.key: setting for setting in TREE.settings()}
BY_VARIABLE: Mapping[str, Setting] = {setting.variable: setting for setting in SETTINGS.values()}


def build_config(values: Mapping[str, Any]) -> Config:
    return cast("Config", TREE.build(values))


def likely_meant(key: str, siblings: SettingGroup | None = None) -> str:
    """A hint for an unknown key: the known key that was probably meant."""
    parent, _, name = key.rpartition(".")
    if siblings is not None and (guess := nearest(name, siblings.members)):
        return f"did you mean {guess}?"
    if guess := nearest(key, SETTINGS):
        return f"did you mean {guess}?"
    if namesakes := [known for known in SETTINGS if known.rpartition(".")[2].lower() == name.lower()]:
        return f"did you mean {' or '.join(namesakes)}?"
    if siblings is not None:
        return f"valid {f'under {parent}' if parent else 'here'}: {', '.join(siblings.members)}"
    return "`plimsoll config show` lists the valid ones"
