"""Fixtures of the fault suite; a failing test prints its seed and every request that passed the proxy."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from pathlib import Path

import pytest

from tests.faults.proxy import Proxy
from tests.faults.record import Record
from tests.faults.rules import Rules
from tests.faults.scripted import ScriptedServer
from tests.faults.seeds import FaultPlan


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
