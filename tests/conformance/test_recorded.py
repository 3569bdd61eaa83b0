"""The embedded cluster answers as the real one did when its answers were written down: for machines without a control plane.

The records are compared with the real control plane whenever there is one (`same`). `RECORD=1 pytest tests/conformance/`
writes them anew, from the embedded cluster; the next comparison shows whether that is what the real one has to tell.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.conformance.sides import Scenario, compared, embedded_side, record_of, recorded
from tests.conformance.test_allocating import allocating
from tests.conformance.test_applying import applying
from tests.conformance.test_changing import (
    brief_answers,
    endpoints,
    generations,
    json_patches,
    locks,
    strategic_patches,
)
from tests.conformance.test_creating import creating
from tests.conformance.test_custom_kinds import custom_kinds
from tests.conformance.test_deleting import deleting, grace, owners
from tests.conformance.test_events_and_leases import events_and_leases
from tests.conformance.test_evicting import evicting, scaling, unready
from tests.conformance.test_node_groups import node_groups, removing_nodes
from tests.conformance.test_priorities import priorities
from tests.conformance.test_reading import reading
from tests.conformance.test_watching import lists_as_watches, watching
from tests.conformance.test_workloads import deployments, nodes, stateful_sets_and_daemons

SCENARIOS: tuple[Scenario, ...] = (
    allocating, applying, brief_answers, creating, custom_kinds, deleting, deployments, endpoints, events_and_leases,
    evicting, generations, grace, json_patches, lists_as_watches, locks, node_groups, nodes, owners, priorities, reading,
    removing_nodes, scaling, stateful_sets_and_daemons, strategic_patches, unready, watching,
)  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_as_recorded(scenario: Scenario, tmp_path: Path) -> None:
    async with embedded_side(tmp_path) as side:
        await scenario(side)
    if os.environ.get("RECORD"):
        path = record_of(scenario)
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(side.account, indent=1, ensure_ascii=False) + "\n")
    differences = compared(side.account, recorded(scenario) or [])
    assert not differences, "\n".join(differences)
