"""Every module is under the layers contract: a module that no layer names could import anything."""

from __future__ import annotations

import pkgutil
import tomllib
from pathlib import Path

import pytest

import plimsoll

ROOT = Path(__file__).parent.parent
# The package itself holds the version. Packages that only group modules have no imports of their own.
EXEMPT = {"plimsoll", "plimsoll.__main__", "plimsoll.controllers", "plimsoll.runtime"}


def layers() -> list[str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = (one for one in contracts if one["type"] == "layers")
    return [name.strip(" ()") for layer in contract["layers"] for name in layer.split("|")]


def modules() -> list[str]:
    return [one.name for one in pkgutil.walk_packages(plimsoll.__path__, "plimsoll.")]


def uncovered(names: list[str], covered: list[str]) -> list[str]:
    return [
        name
        for name in names
        if name not in EXEMPT and not any(name == layer or name.startswith(f"{layer}.") for layer in covered)
    ]


def test_every_module_falls_under_a_layer():
    assert uncovered(modules(), layers()) == []


def test_every_layer_is_a_module_that_exists():
    assert [layer for layer in layers() if layer not in modules()] == []


def test_packages_that_are_exempt_import_nothing():
    for name in EXEMPT - {"plimsoll", "plimsoll.__main__"}:
        source = (ROOT / "src" / Path(*name.split(".")) / "__init__.py").read_text()
        assert "import" not in source.replace(source.split('"""')[1], ""), name


@pytest.mark.parametrize("missing", ["plimsoll.runtime.transaction", "plimsoll.webhook"])
def test_a_module_that_no_layer_names_is_found(missing: str):
    assert uncovered(modules(), [layer for layer in layers() if layer != missing])
