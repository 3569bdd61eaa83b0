"""Fixtures of the node groups on the real control plane."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from plimsoll.controllers.nodegroups.crds import node_group_crds
from plimsoll.runtime.metrics import Metrics
from plimsoll.runtime.operator import connect
from tests.kinds import served
from tests.nodegroups.live import Stage, config
from tests.nodegroups.ordeal import Ordeal, ordeals
from tools.controlplane.cluster import ControlPlane


@pytest.fixture(scope="package")
def node_group_kinds(control_plane: ControlPlane) -> Iterator[None]:
    """The kinds are served for as long as the tests of this package run."""
    with served(control_plane, node_group_crds()):
        yield


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
