"""Requests for machines, as node groups make them."""

from __future__ import annotations

from typing import Any

from plimsoll.providers.protocol import MachineRequest


def request(key: str = "k1", **fields: Any) -> MachineRequest:
    given = {
        "name": f"node-{key}",
        "group": "workers",
        "offering": "small",
        "datacenter": "dc-1",
        "resource_identifier": "cluster-1",
        **fields,
    }
    return MachineRequest(key, **given)
