"""What tests of placement use of the shared cluster, and that nothing of it is left for the next one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import load_credentials
from plimsoll.runtime.clock import RealClock
from tests.placement.faulty import NewStory, stories
from tests.placement.webhook_cluster import empty
from tools.controlplane.cluster import ControlPlane

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    """More patient than any operator: an API server on a busy machine may be silent for a while."""
    credentials = load_credentials(Path(control_plane.kubeconfig))
    async with Client(credentials, clock=RealClock(), qps=1000, burst=1000, timeout_seconds=240) as made:
        yield made


@pytest.fixture
def namespace(control_plane: ControlPlane, namespace: str) -> Iterator[str]:
    """A namespace whose pods, and whoever is asked about them, are gone when the next test begins."""
    yield namespace
    control_plane.request("DELETE", WEBHOOKS)
    empty(control_plane, namespace)


@pytest.fixture
def home(control_plane: ControlPlane) -> Iterator[str]:
    """The operator's own namespace."""
    name = control_plane.add_namespace("home")
    yield name
    control_plane.remove_namespace(name)


@pytest.fixture
async def new_story(
    control_plane: ControlPlane,
    client: Client,
    namespace: str,
    home: str,
    kwok_nodes: Callable[[str], list[str]],
    tmp_path: Path,
) -> AsyncIterator[NewStory]:
    """Rebalances behind a proxy that lets faults strike; any number of them side by side."""
    kwok_nodes("2 zone=a class=spot")
    on_demand = set(kwok_nodes("2 zone=a class=on-demand"))
    async with stories(control_plane, client, home, on_demand, tmp_path) as new:
        yield new
