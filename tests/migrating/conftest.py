from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.migrating.cluster import Place, place
from tools.controlplane.cluster import ControlPlane


@pytest.fixture
async def here(control_plane: ControlPlane, namespace: str) -> AsyncIterator[Place]:
    """The test's namespace, and one beside it for the operator."""
    async with place(control_plane, namespace) as found:
        yield found
