"""Tokens and the Secret: renewed in time, shared by all, changed without a restart, and shown to nobody."""

from __future__ import annotations

import asyncio
import traceback
from typing import Any

import pytest
from structlog.testing import capture_logs

from plimsoll.providers.errors import AmbiguousOutcome, ProviderError, ProviderUnreachable, Unauthorised
from plimsoll.providers.vpsie.credentials import VpsieCredentials
from plimsoll.providers.vpsie.replies import AccessToken, Grant
from plimsoll.providers.vpsie.token import Access
from tests.vpsie.conftest import Desk

LOG_IN = "POST /auth/from/api"


async def test_one_token_serves_all_who_wait(desk: Desk) -> None:
    await asyncio.gather(*(desk.list() for _ in range(8)))
    assert desk.emulator.count(LOG_IN) == 1
    assert desk.emulator.requests[0].body == {"clientId": "our-client-id", "clientSecret": "our-client-secret"}
    assert desk.emulator.requests[1].headers["Authorization"] == "Bearer token-1-of-our-client-id"


async def test_a_token_is_renewed_five_minutes_before_it_ends(desk: Desk) -> None:
    await desk.list()
    desk.clock.push(3600 - 300 - 1)
    await desk.list()
    assert desk.emulator.count(LOG_IN) == 1
    desk.clock.push(1)
    await asyncio.gather(*(desk.list() for _ in range(5)))
    assert desk.emulator.count(LOG_IN) == 2


async def test_a_token_that_lives_for_minutes_is_not_renewed_all_the_time(desk: Desk) -> None:
    desk.emulator.token_seconds = 240
    for _ in range(10):
        await desk.list()
    assert desk.emulator.count(LOG_IN) == 1
    desk.clock.push(121)
    await desk.list()
    assert desk.emulator.count(LOG_IN) == 2


async def test_a_failed_renewal_harms_nobody_while_the_token_holds(desk: Desk) -> None:
    await desk.list()
    desk.clock.push(3301)
    desk.emulator.fail(LOG_IN, "lose request", times=3)
    with capture_logs() as logs:
        assert await desk.list() == {}
    assert [record["log_level"] for record in logs] == ["warning"]
    await desk.list()
    assert len(desk.emulator.tokens) == 2


async def test_a_token_that_is_refused_is_replaced_also_for_an_order(desk: Desk) -> None:
    await desk.list()
    desk.emulator.tokens.clear()
    await desk.create()
    assert desk.emulator.count(LOG_IN) == 2
    assert desk.emulator.keys == {"k1": 1}


async def test_a_token_that_is_refused_for_ever_is_told(desk: Desk) -> None:
    desk.emulator.token_seconds = 0
    with pytest.raises(Unauthorised, match="token expired or unknown"):
        await desk.list()
    assert desk.emulator.count(LOG_IN) == 2


async def test_a_plain_token(desk: Desk) -> None:
    desk.secret = {"url": desk.emulator.url, "token": "plain-token\n"}
    desk.emulator.tokens["plain-token"] = float("inf")
    await desk.list()
    assert desk.emulator.count(LOG_IN) == 0
    del desk.emulator.tokens["plain-token"]
    with pytest.raises(Unauthorised):
        await desk.list()


async def test_a_secret_that_changes_is_noticed_within_a_minute(desk: Desk) -> None:
    await desk.list()
    desk.emulator.clients["new-id"] = "new-secret"
    desk.secret |= {"clientId": "new-id", "clientSecret": "new-secret"}
    await desk.list()
    assert desk.secret_reads == 1
    desk.clock.push(60)
    await desk.list()
    assert desk.emulator.requests[-1].headers["Authorization"] == "Bearer token-2-of-new-id"


async def test_a_secret_that_changes_is_noticed_at_once_when_the_old_one_is_refused(desk: Desk) -> None:
    desk.secret = {"url": desk.emulator.url, "token": "old"}
    desk.emulator.tokens |= {"old": float("inf"), "new": float("inf")}
    await desk.list()
    del desk.emulator.tokens["old"]
    desk.secret["token"] = "new"
    await desk.list()
    assert desk.emulator.requests[-1].headers["Authorization"] == "Bearer new"


async def test_wrong_credentials_are_shown_once_a_minute_until_they_change(desk: Desk) -> None:
    desk.secret["clientSecret"] = "wrong"
    for _ in range(3):
        with pytest.raises(Unauthorised, match="Invalid credentials"):
            await desk.list()
    assert desk.emulator.count(LOG_IN) == 1
    desk.clock.push(60)
    with pytest.raises(Unauthorised):
        await desk.list()
    assert desk.emulator.count(LOG_IN) == 2
    desk.secret["clientSecret"] = "our-client-secret"
    await desk.list()


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ((200, {"error": True, "code": 400, "message": "bad client"}), Unauthorised),
        ((404, {"error": True, "message": "no such client"}), Unauthorised),
        ((200, {"accessToken": {}}), ProviderUnreachable),
        ((200, {"accessToken": "what"}), ProviderUnreachable),
        ((200, True), ProviderUnreachable),
    ],
)
async def test_a_log_in_that_fails_is_told_as_what_it_is(desk: Desk, reply: Any, kind: type[ProviderError]) -> None:
    desk.emulator.fail(LOG_IN, reply)
    with pytest.raises(kind):
        await desk.list()


@pytest.mark.parametrize(
    ("secret", "message"),
    [
        ({}, "no clientId and clientSecret, and no token"),
        ({"clientId": "a"}, "no clientSecret"),
        ({"token": "a\x00b"}, "token with characters that cannot be sent"),
        ({"token": "t", "url": "http://api.vpsie.com/v2"}, "not one like https://"),
        ({"token": "t", "url": "https://me:pass@api.vpsie.com"}, "holds a user or a password"),
        ({"token": "t", "url": "api.elsewhere.example"}, "not one like https://"),
        ({"token": "t", "url": "https://api.vpsie.com/v2?x=1"}, "not one like https://"),
    ],
)
async def test_a_secret_that_cannot_be_used_is_told_without_its_values(desk: Desk, secret: Any, message: str) -> None:
    desk.secret = secret
    with pytest.raises(Unauthorised, match=message) as refusal_error:
        await desk.list()
    assert not any(value in str(refusal_error.value) for value in secret.values() if len(value) > 1)
    assert desk.emulator.requests == []


async def test_no_secret_is_ever_shown(desk: Desk) -> None:
    """Whatever fails, and however carelessly VPSie repeats what it was given."""
    secrets = ("our-client-id", "our-client-secret", "token-1-of", "wrong-secret")
    shown: list[str] = []

    async def attempt() -> None:
        try:
            await desk.create()
        except ProviderError as error:
            shown.extend(traceback.format_exception(error))
            shown.append(repr(error))

    with capture_logs() as logs:
        desk.secret["clientSecret"] = "wrong-secret"
        await attempt()
        desk.secret["clientSecret"] = "our-client-secret"
        everything = "you sent token-1-of-our-client-id of our-client-id with our-client-secret"
        for status in (400, 403, 404, 422, 500):
            desk.emulator.fail("POST /vm", (status, {"error": True, "message": everything}))
            desk.clock.push(200)
            await attempt()
        desk.emulator.fail("GET /vm", (404, everything), times=3)
        await attempt()
        repeated = "you sent our-client-id and our-client-secret"
        desk.emulator.fail(LOG_IN, (500, {"error": True, "message": repeated}), times=3)
        desk.emulator.tokens.clear()
        desk.clock.push(4000)
        await attempt()
    assert len(shown) > 8
    text = "\n".join([*shown, str(logs)])
    assert not [secret for secret in secrets if secret in text]
    assert "you sent …" in text


def test_no_repr_shows_a_secret() -> None:
    credentials = VpsieCredentials("https://h", token="hidden-1", client_id="hidden-2", client_secret="hidden-3")
    for thing in (
        credentials,
        Access(credentials, "hidden-4"),
        Grant(AccessToken("hidden-5")),
        AccessToken("hidden-6"),
    ):
        assert "hidden" not in repr(thing)
        assert "hidden" not in f"{thing}"


async def test_a_redirect_is_not_followed(desk: Desk) -> None:
    desk.emulator.fail("GET /vm", (302, {"headers": {"Location": "https://elsewhere.example"}}))
    with pytest.raises(ProviderError, match="is the url in the Secret right") as refusal_error:
        await desk.list()
    assert not isinstance(refusal_error.value, AmbiguousOutcome)
