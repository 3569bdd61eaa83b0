"""Fixtures of the node groups on the real control plane."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from plimsoll.metrics import Metrics
from plimsoll.nodegroups.crds import crds
from plimsoll.nodegroups.types import NODE_GROUPS, VPSIE_NODES
from plimsoll.operator import connect
from tests.nodegroups.live import Stage, config
from tests.nodegroups.ordeal import Ordeal, ordeals
from tools.controlplane.api import ApiError
from tools.controlplane.cluster import ControlPlane

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="package")
def node_group_kinds(control_plane: ControlPlane) -> Iterator[None]:
    """The kinds are served for as long as the tests of this package run."""
    for crd in crds():
        control_plane.request("POST", DEFINITIONS, crd)
    deadline = time.monotonic() + 60
    for kind in (NODE_GROUPS, VPSIE_NODES):
        while not _served(control_plane, kind.path()):
            assert time.monotonic() < deadline, f"{kind.plural} are never served"
            time.sleep(0.1)
    yield
    for crd in crds():
        control_plane.request("DELETE", f"{DEFINITIONS}/{crd['metadata']['name']}")


def _served(control_plane: ControlPlane, path: str) -> bool:
    try:
        control_plane.request("GET", path)
    except ApiError:
        return False
    return True


@pytest.fixture
async def stage(control_plane: ControlPlane, namespace: str, node_group_kinds: None) -> AsyncIterator[Stage]:
    settings = config(namespace)
    async with connect(settings, Metrics(), kubeconfig=Path(control_plane.kubeconfig), context=None) as client:
        one = Stage(client, namespace)
        yield one
        await one.clear()


@pytest.fixture
async def ordeal(control_plane: ControlPlane, stage: Stage, tmp_path: Path) -> AsyncIterator[Ordeal]:
    async with ordeals(control_plane, stage, tmp_path) as one:
        yield one
