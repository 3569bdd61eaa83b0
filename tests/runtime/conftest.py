"""A client of the real API server for the tests of the runtime."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import load_credentials
from plimsoll.runtime.clock import RealClock
from tools.controlplane.cluster import ControlPlane


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    credentials = load_credentials(Path(control_plane.kubeconfig))
    async with Client(credentials, clock=RealClock(), qps=1000, burst=1000, timeout_seconds=240) as made:
        yield made
