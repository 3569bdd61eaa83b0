"""Fixtures of the fault suite; a failing test prints its seed and every request that passed the proxy."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.faults.crashes import NewScene
from tests.faults.proxy import Proxy
from tests.faults.record import Record
from tests.faults.rules import FaultSource, Rules
from tests.faults.scene import Scene, scene_in
from tests.faults.scripted import ScriptedServer
from tests.faults.seeds import FaultPlan
from tests.faults.upstream import Direct, Upstream
from tools.controlplane.cluster import ControlPlane


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and isinstance(item, pytest.Function):
        for found in item.funcargs.values():
            if isinstance(found, Record):
                report.sections.append(("requests through the proxy", str(found)))
            elif isinstance(found, FaultPlan):
                report.sections.append(("faults", str(found)))
    return report


@pytest.fixture
async def record() -> Record:
    return Record()


@pytest.fixture
def rules() -> Rules:
    return Rules()


@pytest.fixture
async def scripted() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer() as server:
        yield server


@pytest.fixture
async def to_scripted(scripted: ScriptedServer, record: Record, rules: Rules, tmp_path: Path) -> AsyncIterator[Proxy]:
    async with Proxy(scripted.upstream, record, [rules], tmp_path) as proxy:
        yield proxy


# ── on the real control plane ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="package")
def fault_nodes(control_plane: ControlPlane) -> Iterator[list[str]]:
    """Two nodes for all tests of this package: making nodes takes longer than most of them."""
    names = control_plane.add_nodes("2 zone=a cpu=32 memory=64Gi prefix=faults")
    yield names
    control_plane.remove_nodes(names)


@pytest.fixture
async def direct(control_plane: ControlPlane) -> AsyncIterator[Direct]:
    async with Direct(Upstream.from_kubeconfig(control_plane.kubeconfig)) as direct:
        yield direct


@pytest.fixture
async def proxy(control_plane: ControlPlane, record: Record, rules: Rules, tmp_path: Path) -> AsyncIterator[Proxy]:
    upstream = Upstream.from_kubeconfig(control_plane.kubeconfig)
    async with Proxy(upstream, record, [rules], tmp_path) as proxy:
        yield proxy


@pytest.fixture
async def scene(
    namespace: str, fault_nodes: list[str], direct: Direct, proxy: Proxy, rules: Rules
) -> AsyncIterator[Scene]:
    async with scene_in(namespace, direct, proxy, rules) as scene:
        yield scene


@pytest.fixture
async def new_scene(control_plane: ControlPlane, fault_nodes: list[str], direct: Direct, tmp_path: Path) -> NewScene:
    """Scenes side by side, each with a namespace, a proxy and a record of its own."""
    upstream = Upstream.from_kubeconfig(control_plane.kubeconfig)

    @asynccontextmanager
    async def new(*sources: FaultSource) -> AsyncIterator[Scene]:
        namespace = control_plane.add_namespace()
        directory = tmp_path / namespace
        directory.mkdir()
        record, rules = Record(), Rules()
        try:
            async with (
                Proxy(upstream, record, [rules, *sources], directory) as proxy,
                scene_in(namespace, direct, proxy, rules) as scene,
            ):
                yield scene
        except BaseException as error:
            error.add_note(f"requests in {namespace}:\n{record}")
            raise
        finally:
            # At once: hundreds of scenes, one after the other, would not find room on two nodes.
            control_plane.remove_namespace(namespace)

    return new
