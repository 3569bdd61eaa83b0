"""Orders and returns of machines pass the one door like every write: leadership, read-only mode, audit, and what became of them."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from plimsoll.controllers.nodegroups.types import VPSIE_NODES
from plimsoll.disruption.ledger import DisruptionLedger
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.resources import PODS, Key
from plimsoll.providers.errors import (
    AmbiguousOutcome,
    OfferingUnavailable,
    ProviderUnreachable,
    QuotaExceeded,
    Throttled,
    Unauthorised,
)
from plimsoll.providers.protocol import Machine, MachineRequest, Provider
from plimsoll.runtime.actuator import Actuator
from plimsoll.runtime.audit import AuditTrail
from plimsoll.runtime.clock import RealClock
from plimsoll.runtime.decision import Action, CreateMachine, Decision, DeleteMachine, DisruptionLimits, Reason, Ref
from plimsoll.runtime.expectations import Expectations
from plimsoll.runtime.metrics import Metrics
from plimsoll.runtime.outcome import ActionResult

WHY = Reason("Test", "because a test says so")
TARGET = Ref(VPSIE_NODES, "default", "workers-1", "uid-1")
ORDER = CreateMachine(TARGET, "cloud", MachineRequest("uid-1", "workers-1", "workers", "small", "dc-1"), WHY)
RETURN = DeleteMachine(TARGET, "cloud", "m1", WHY)


class Leads:
    def __init__(self) -> None:
        self.current = "epoch-1"

    def term(self) -> str:
        return self.current


class Answers:
    """A provider that does as it is told to, and counts."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.calls: list[str] = []

    async def create(self, request: MachineRequest) -> Machine:
        self.calls.append(f"create {request.key}")
        if self.error is not None:
            raise self.error
        return Machine("m1", request.name, request.key)

    async def delete(self, machine_id: str) -> None:
        self.calls.append(f"delete {machine_id}")
        if self.error is not None:
            raise self.error


class Stage:
    def __init__(self, audit: Path, *, read_only: bool = False) -> None:
        self.leads, self.cloud, self.view, self.audit = Leads(), Answers(), View.of({PODS: []}), audit
        self.trail = AuditTrail(str(audit))
        nobody: Any = None  # no call to the API server is part of this
        self.door = Actuator(
            nobody, self.view, RealClock(), identity="here", leadership=self.leads,
            ledger=DisruptionLedger(DisruptionLimits(1, 1, timedelta(hours=1))), memory=nobody, expectations=Expectations(),
            recorder=nobody, metrics=Metrics(), audit=self.trail, read_only=read_only,
            providers={"cloud": cast("Provider", self.cloud)},
        )  # fmt: skip

    async def act(self, action: Action) -> ActionResult:
        outcome = await self.door.act("nodegroups", Key("VPSieNode", "default", "n"), _decision(action), "epoch-1")
        (result,) = outcome.results
        return result


def _decision(action: Action) -> Decision:
    return Decision(reason=WHY, actions=(action,))


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path / "audit.jsonl")


async def test_both_are_done_and_written_down(stage: Stage) -> None:
    made = await stage.act(ORDER)
    assert (made.status, made.machine and made.machine.id) == ("done", "m1")
    assert (await stage.act(RETURN)).status == "done"
    assert stage.cloud.calls == ["create uid-1", "delete m1"]
    assert stage.trail.flush(10)
    lines = [json.loads(line) for line in stage.audit.read_text().splitlines()]
    assert [(line["action"], line["uid"], line["detail"]) for line in lines] == [
        ("CreateMachine", "uid-1", "machine m1"),
        ("DeleteMachine", "uid-1", "machine m1"),
    ]


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (QuotaExceeded("no more"), "refused", "QuotaExceeded"),
        (OfferingUnavailable("sold out"), "refused", "OfferingUnavailable"),
        (Unauthorised("who are you"), "refused", "Unauthorised"),
        (Throttled("slowly", 7), "failed", ""),
        (ProviderUnreachable("no route"), "failed", ""),
        (AmbiguousOutcome("lost"), "unknown", ""),
        (TimeoutError(), "unknown", ""),
    ],
)
async def test_errors_are_told_apart(stage: Stage, error: Exception, status: str, code: str) -> None:
    stage.cloud.error = error
    result = await stage.act(ORDER)
    assert (result.status, result.blocker.code if result.blocker else "") == (status, code)


async def test_who_no_longer_leads_calls_no_provider(stage: Stage) -> None:
    stage.leads.current = "epoch-2"
    for action in (ORDER, RETURN):
        assert (await stage.act(action)).status == "refused"
    assert stage.cloud.calls == []


async def test_read_only_calls_no_provider(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "audit.jsonl", read_only=True)
    for action in (ORDER, RETURN):
        assert (await stage.act(action)).status == "would"
    assert stage.cloud.calls == []


async def test_nothing_is_given_back_on_a_stale_view_or_without_an_id(stage: Stage) -> None:
    nameless = DeleteMachine(TARGET, "cloud", "", WHY)
    assert (await stage.act(nameless)).blocker is not None
    stage.view[PODS].synced = False
    result = await stage.act(RETURN)
    assert result.blocker is not None
    assert result.blocker.code == "ViewStale"
    assert stage.cloud.calls == []


async def test_an_unknown_provider_is_named(stage: Stage) -> None:
    result = await stage.act(CreateMachine(TARGET, "clowd", ORDER.request, WHY))
    assert result.blocker is not None
    assert 'provider "clowd" is not enabled; enabled: cloud' in result.blocker.message
