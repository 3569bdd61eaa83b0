"""Both clusters for one test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.conformance.sides import Side, embedded_side, real_side
from tools.controlplane.cluster import ControlPlane


@pytest.fixture
async def both(
    control_plane: ControlPlane, namespace: str, kwok_nodes: Callable[[str], list[str]], tmp_path: Path
) -> AsyncIterator[tuple[Side, Side]]:
    async with embedded_side(tmp_path) as embedded, real_side(control_plane, namespace, kwok_nodes) as real:
        yield embedded, real
