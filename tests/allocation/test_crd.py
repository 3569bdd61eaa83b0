"""The kind that we bring along names what is read and keeps the rest."""

from __future__ import annotations

from typing import Any

import yaml

from plimsoll.controllers.allocation.crd import crd
from tests.cli.command import plimsoll


def schema() -> dict[str, Any]:
    (version,) = crd()["spec"]["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]
    return found


def test_what_is_not_known_is_kept_everywhere() -> None:
    def objects(part: dict[str, Any]) -> list[dict[str, Any]]:
        inner = [*part.get("properties", {}).values(), *([part["items"]] if "items" in part else [])]
        return [*([part] if part["type"] == "object" else []), *(found for one in inner for found in objects(one))]

    for part in (schema()["spec"], schema()["status"]):
        assert all(one["x-kubernetes-preserve-unknown-fields"] for one in objects(part))


def test_nothing_is_required_or_bounded() -> None:
    text = yaml.safe_dump(crd())
    assert "required" not in text
    assert "minimum" not in text
    assert "maximum" not in text


def test_the_fields_have_the_names_of_the_specification() -> None:
    allocations = schema()["status"]["properties"]["allocations"]["properties"]
    assert set(allocations) == {"drives", "virtualDrives", "wekaPort", "agentPort", "failureDomain"}
    assert set(allocations["virtualDrives"]["items"]["properties"]) == {
        "virtualUUID", "physicalUUID", "capacityGiB", "serial", "type",
    }  # fmt: skip


def test_it_is_printed() -> None:
    result = plimsoll("manifests", "crds")
    assert result.exit_code == 0
    assert crd() in list(yaml.safe_load_all(result.stdout))
