"""A rename inside the operator changes no string that users depend on."""

from __future__ import annotations

import importlib
import tomllib
from importlib.metadata import entry_points

import pytest

from tests.public_contract.contract import FILE, Contract, differences, failure, read, read_deprecated
from tests.public_contract.sections import SECTIONS, Section
from tests.public_contract.sources import PACKAGE, ROOT


@pytest.fixture(scope="module")
def frozen() -> Contract:
    return read(FILE.read_text("utf-8"))


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.name)
def test_the_strings_of_a_section_are_those_of_the_contract(section: Section, frozen: Contract) -> None:
    found = differences(frozen.get(section.name, {}), section.derive())
    if found:
        pytest.fail(failure(section.name, found), pytrace=False)


def test_the_contract_has_no_other_sections(frozen: Contract) -> None:
    assert list(frozen) == [section.name for section in SECTIONS]


def test_every_part_of_the_contract_holds_something(frozen: Contract) -> None:
    """A part that is empty by mistake would freeze nothing."""
    without_options = {"plimsoll allocation", "plimsoll config", "plimsoll config convert", "plimsoll version"}
    every = {part: found for parts in frozen.values() for part, found in parts.items()}
    assert {part for part, found in every.items() if not found} <= without_options
    values = [
        (part, key) for part, found in every.items() if isinstance(found, dict) for key in found if not found[key]
    ]
    assert values == []


def test_deprecated_strings_are_still_read() -> None:
    source = "\n".join(path.read_text("utf-8") for path in PACKAGE.rglob("*.py"))
    gone = [one.old for one in read_deprecated(FILE.read_text("utf-8")) if one.old not in source]
    assert not gone, "the file says that these are still read; nothing in src does"


def test_every_entry_point_loads_and_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    groups = {**project["entry-points"], "console_scripts": project["scripts"]}
    for group, names in groups.items():
        for name, value in names.items():
            module, _, attribute = value.partition(":")
            assert hasattr(importlib.import_module(module), attribute), f"{group}: {name} = {value}"
        installed = {one.name for one in entry_points(group=group) if one.value.startswith("plimsoll.")}
        assert installed == set(names), f"{group}: install the package again (make setup)"
