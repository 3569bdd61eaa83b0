"""Days with an operator that lacks one of its checks: the invariant checker must object, or the other days prove nothing."""

from __future__ import annotations

import pytest

from plimsoll.controllers.nodegroups.lifecycle import termination
from plimsoll.controllers.nodegroups.scale_down import drain
from plimsoll.disruption.ledger import DisruptionLedger
from plimsoll.embedded_cluster.clocks import run_virtually
from tests.embedded_cluster.histories import Day


def _objections(seed: int) -> str:
    with pytest.raises(AssertionError) as error:
        run_virtually(Day(seed).live(events=36))
    return str(error.value)


def test_without_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DisruptionLedger, "refusal", lambda *_, **__: None)
    assert " S5: " in _objections(14)


def test_without_a_last_look_at_the_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(termination, "_blocked", lambda *_: None)
    monkeypatch.setattr(termination, "pods_to_move", lambda _: [])
    monkeypatch.setattr(drain, "pods_to_move", lambda _: [])
    assert " S6: " in _objections(3)
