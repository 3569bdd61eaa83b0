"""Fixtures of the allocation suite on the real control plane."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from plimsoll.controllers.allocation.controller import AllocationController
from plimsoll.controllers.allocation.crd import crd
from tests.allocation.environment import Stage, config, settings
from tests.faults.history import History
from tests.faults.proxy import Proxy
from tests.faults.record import Record
from tests.faults.rules import FaultSource, Rules
from tests.faults.upstream import Direct, Upstream
from tests.kinds import served
from tests.rbac.everywhere import kubeconfig_of_the_operator
from tools.controlplane.cluster import ControlPlane

NewStage = Callable[..., AbstractAsyncContextManager[Stage]]


@pytest.fixture(scope="package")
def weka_crd(control_plane: ControlPlane) -> Iterator[None]:
    """The kind is served for as long as the tests of this package run."""
    with served(control_plane, [crd()]):
        yield


@pytest.fixture
async def new_stage(control_plane: ControlPlane, weka_crd: None, tmp_path: Path) -> AsyncIterator[NewStage]:
    upstream = Upstream.from_kubeconfig(control_plane.kubeconfig)
    namespaces: list[str] = []

    @asynccontextmanager
    async def new(*sources: FaultSource) -> AsyncIterator[Stage]:
        namespace = control_plane.add_namespace()
        namespaces.append(namespace)
        directory = tmp_path / namespace
        directory.mkdir()
        record, rules, nodes = Record(), Rules(), list[str]()
        account = kubeconfig_of_the_operator(
            control_plane, config(namespace), [AllocationController(settings(namespace), nonce="none")]
        )
        collection = f"/apis/weka.weka.io/v1alpha1/namespaces/{namespace}/wekacontainers"
        async with (
            Direct(upstream) as direct,
            Proxy(Upstream.from_kubeconfig(account), record, [rules, *sources], directory) as proxy,
            History(direct, [collection]) as history,
        ):
            stage = Stage(namespace, nodes, direct, proxy, rules, history)
            try:
                yield stage
                await stage.judged()
            except BaseException as error:
                error.add_note(f"requests in {namespace}:\n{str(record)[-20000:]}")
                raise
            finally:
                await stage.leave()

    yield new
    for namespace in namespaces:
        control_plane.remove_namespace(namespace)


@pytest.fixture
async def stage(new_stage: NewStage) -> AsyncIterator[Stage]:
    """A namespace, nodes and containers of the test's own; afterwards the whole history is judged."""
    async with new_stage() as stage:
        yield stage
