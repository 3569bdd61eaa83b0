"""VPSie's error replies are classified: quota, capacity, permissions and invalid requests."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.providers.errors import (
    AmbiguousOutcome,
    MachineNotFound,
    OfferingUnavailable,
    ProviderError,
    QuotaExceeded,
    Throttled,
    Unauthorised,
)
from plimsoll.providers.vpsie.api import refusal_error
from tests.vpsie.conftest import Desk


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (403, "You have reached the limit of 10 servers", QuotaExceeded),
        (422, "Quota exceeded for cpu", QuotaExceeded),
        (400, "Maximum number of VMs allowed is 5", QuotaExceeded),
        (402, "whatever", QuotaExceeded),
        (400, "Insufficient balance, please top up", QuotaExceeded),
        (500, "server quota exceeded", QuotaExceeded),
        (422, "Offering x is currently not available in this datacenter", OfferingUnavailable),
        (409, "Out of stock", OfferingUnavailable),
        (404, "Plan not found", OfferingUnavailable),
        (400, "datacenter dc-9 does not exist", OfferingUnavailable),
        (503, "Not enough resources on any host", OfferingUnavailable),
        (429, "quota of requests exceeded", Throttled),
        (400, "API rate limit exceeded", Throttled),
        (401, "no", Unauthorised),
        (403, "Forbidden", Unauthorised),
        (404, "nothing here", MachineNotFound),
        (422, "hostname must be lower case", ProviderError),
    ],
)
def test_what_a_refused_order_means(status: int, message: str, kind: type[ProviderError]) -> None:
    error = refusal_error(status, message, "POST /vm", ordering=True)
    assert type(error) is kind
    assert message in str(error)


@pytest.mark.parametrize("message", ["Resource not found", "Quota not found", "plan does not exist"])
def test_only_an_order_can_fail_for_quota_or_stock(message: str) -> None:
    assert type(refusal_error(404, message, "DELETE /vm/1")) is MachineNotFound


async def test_quota_is_told_in_vpsies_words_and_leaves_no_doubt(desk: Desk) -> None:
    desk.emulator.quota = 0
    with pytest.raises(QuotaExceeded, match="You have reached the limit of 0 servers"):
        await desk.create()
    desk.emulator.quota = 1
    await desk.create()
    assert desk.emulator.keys == {"k1": 1}


async def test_an_offering_that_is_sold_out(desk: Desk) -> None:
    desk.emulator.sold_out.add("small")
    with pytest.raises(OfferingUnavailable, match="currently not available"):
        await desk.create()
    assert (await desk.create(offering="large")).key == "k1"


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ((403, {"error": True, "message": "project is not yours"}), Unauthorised),
        ((422, {"error": "Validation", "message": "bad hostname"}), ProviderError),
        ((200, {"error": True, "code": 422, "message": "bad hostname"}), ProviderError),
        ((200, {"error": True, "message": "bad hostname"}), ProviderError),
    ],
)
async def test_a_refused_order_was_not_carried_out(desk: Desk, reply: Any, kind: type[ProviderError]) -> None:
    desk.emulator.fail("POST /vm", reply)
    with pytest.raises(ProviderError) as error:
        await desk.create()
    assert type(error.value) is kind
    await desk.create()
    assert desk.emulator.count("POST /vm") == 2


async def test_what_was_refused_may_be_asked_for_again_at_once(desk: Desk) -> None:
    desk.emulator.quota = 0
    asked_at = desk.clock.now()
    with pytest.raises(QuotaExceeded):
        await desk.create()
    with pytest.raises(QuotaExceeded):
        await desk.create(last_asked_at=asked_at)
    desk.emulator.quota = 1
    desk.start()
    with pytest.raises(AmbiguousOutcome):
        await desk.create(last_asked_at=asked_at)  # another process does not know what was answered
