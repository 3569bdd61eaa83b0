"""What tests of placement use of the shared cluster, and that nothing of it is left for the next one."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from plimsoll.clock import RealClock
from plimsoll.kube.client import Client
from plimsoll.kube.credentials import load_credentials
from tools.controlplane.api import ApiError
from tools.controlplane.cluster import ControlPlane

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
# Whoever makes pods goes before the pods, or they would come again.
MADE = ("apps/v1/deployments", "apps/v1/statefulsets", "apps/v1/replicasets")


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
    for collection in MADE:
        group, _, kind = collection.rpartition("/")
        control_plane.request("DELETE", f"/apis/{group}/namespaces/{namespace}/{kind}?propagationPolicy=Background")
    pods = f"/api/v1/namespaces/{namespace}/pods"

    def gone() -> bool:
        with contextlib.suppress(OSError, ApiError):  # a thousand at once can take longer than one request may
            control_plane.request("DELETE", f"{pods}?gracePeriodSeconds=0")
            return not control_plane.request("GET", pods)["items"]
        return False

    control_plane.wait_for(gone, f"the pods of {namespace} to be gone")


@pytest.fixture
def home(control_plane: ControlPlane) -> Iterator[str]:
    """The operator's own namespace."""
    name = control_plane.add_namespace("home")
    yield name
    control_plane.remove_namespace(name)
