"""Exec credential plugins: their input, valid output, when they run again, and the error messages."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from plimsoll.kube.client import exec_plugin
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import Credentials, load_credentials
from plimsoll.kube.client.errors import CredentialsError, Unauthorized
from plimsoll.kube.types.resources import CONFIGMAPS
from tests.eventually import eventually
from tests.kube.certificates import Authority
from tests.kube.stub_server import SkippingClock, StubServer, configmap, ok, refusal
from tests.kube.test_credentials_kubeconfig import config, write
from tests.kube.test_credentials_tls import data, name_shown, tls_server

V1, V1BETA1 = "client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"
ONE = "/api/v1/namespaces/ns/configmaps/a"


class Plugin:
    """A program that writes down how it was called, and answers with what `answer` holds."""

    def __init__(self, directory: Path, api_version: str = V1) -> None:
        self.directory = directory
        self.api_version = api_version
        self.exec: dict[str, Any] = {"command": "./plugin", "apiVersion": api_version, "interactiveMode": "Never"}
        script = f"""#!{sys.executable}
import json, os, pathlib, sys
here = pathlib.Path({str(directory)!r})
call = {{"args": sys.argv[1:], "info": json.loads(os.environ["KUBERNETES_EXEC_INFO"]), "env": dict(os.environ)}}
with open(here / "calls", "a") as calls:
    calls.write(json.dumps(call) + "\\n")
sys.stderr.write((here / "stderr").read_text())
sys.stdout.write((here / "answer").read_text())
sys.exit(int((here / "exit").read_text()))
"""
        (directory / "plugin").write_text(script)
        (directory / "plugin").chmod(0o700)
        self.answer(token="one")

    def answer(self, *, code: int = 0, stderr: str = "", raw: str | None = None, **status: str) -> None:
        document = {"apiVersion": self.api_version, "kind": "ExecCredential", "status": status}
        (self.directory / "answer").write_text(json.dumps(document) if raw is None else raw)
        (self.directory / "stderr").write_text(stderr)
        (self.directory / "exit").write_text(str(code))

    @property
    def calls(self) -> list[Any]:
        file = self.directory / "calls"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def credentials(
        self, clock: SkippingClock | None = None, server: str = "http://one", cluster: dict[str, Any] | None = None
    ) -> Credentials:
        path = write(self.directory / "config", config(server, user={"exec": self.exec}, cluster=cluster))
        return load_credentials(path, env={"PATH": "/usr/bin:/bin", "GIVEN": "by us"}, clock=clock or SkippingClock())


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


async def token(credentials: Credentials) -> str:
    return (await credentials.authorization())["Authorization"].removeprefix("Bearer ")


def in_ten_minutes(clock: SkippingClock) -> str:
    return (clock.now() + timedelta(minutes=10)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.parametrize("api_version", [V1, V1BETA1])
async def test_a_program_is_told_what_it_needs_and_its_token_is_used(tmp_path: Path, api_version: str) -> None:
    plugin = Plugin(tmp_path, api_version)
    plugin.exec |= {"args": ["get-token", "--cluster", "x"], "env": [{"name": "PROFILE", "value": "prod"}]}
    assert await token(plugin.credentials()) == "one"
    (call,) = plugin.calls
    assert call["args"] == ["get-token", "--cluster", "x"]
    assert call["env"]["PROFILE"] == "prod" and call["env"]["GIVEN"] == "by us"
    assert call["info"] == {"apiVersion": api_version, "kind": "ExecCredential", "spec": {"interactive": False}}


async def test_the_cluster_is_described_where_that_is_asked_for(plugin: Plugin) -> None:
    plugin.exec["provideClusterInfo"] = True
    pem = Authority().pem
    cluster = {
        "certificate-authority-data": data(pem),
        "tls-server-name": "kubernetes.default",
        "proxy-url": "http://proxy:3128",
        "extensions": [
            {"name": "another", "extension": 1},
            {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "06e3"}},
        ],
    }
    await token(plugin.credentials(server="https://one", cluster=cluster))
    assert plugin.calls[0]["info"]["spec"]["cluster"] == {
        "server": "https://one",
        "tls-server-name": "kubernetes.default",
        "certificate-authority-data": data(pem),
        "proxy-url": "http://proxy:3128",
        "config": {"audience": "06e3"},
    }


async def test_a_command_without_a_slash_is_looked_for_in_path(plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin.exec["command"] = "plugin"
    path = write(plugin.directory / "elsewhere" / "config", config(user={"exec": plugin.exec}))
    credentials = load_credentials(path, env={"PATH": str(plugin.directory)})
    assert await token(credentials) == "one"


async def test_a_certificate_of_a_program_is_shown_and_renewed(plugin: Plugin, tmp_path: Path) -> None:
    authority, clock = Authority(), SkippingClock()
    signed = authority.sign("first")
    plugin.answer(
        clientCertificateData=signed.certificate.decode(),
        clientKeyData=signed.key.decode(),
        expirationTimestamp=(clock.now() + timedelta(minutes=10)).isoformat(),
    )
    async with tls_server(authority, tmp_path, clients=authority) as stub:
        credentials = plugin.credentials(clock, stub.url, {"certificate-authority-data": data(authority.pem)})
        async with Client(credentials, clock=clock) as client:
            await client.get(CONFIGMAPS, "ns", "a")
            assert name_shown(stub) == "first"
            signed = authority.sign("second")
            plugin.answer(clientCertificateData=signed.certificate.decode(), clientKeyData=signed.key.decode())
            clock.ahead_seconds += 601
            await client.get(CONFIGMAPS, "ns", "a")
            assert name_shown(stub) == "second"


# ── when it is asked again ───────────────────────────────────────────────────────────────────────────────────────────


async def test_credentials_without_an_end_are_asked_for_once(plugin: Plugin) -> None:
    clock = SkippingClock()
    credentials = plugin.credentials(clock)
    assert await asyncio.gather(*[token(credentials) for _ in range(5)]) == ["one"] * 5
    clock.ahead_seconds += 100_000
    await token(credentials)
    assert len(plugin.calls) == 1


async def test_credentials_are_renewed_shortly_before_they_end(plugin: Plugin) -> None:
    clock = SkippingClock()
    credentials = plugin.credentials(clock)
    plugin.answer(token="one", expirationTimestamp=in_ten_minutes(clock))
    await token(credentials)
    plugin.answer(token="two")
    clock.ahead_seconds += 500
    assert await token(credentials) == "one"
    clock.ahead_seconds += 95
    assert await token(credentials) == "one", "it is still good: nobody waits for the program"

    async def renewed() -> bool:
        return await token(credentials) == "two"

    await eventually(renewed)
    assert len(plugin.calls) == 2


async def test_credentials_that_cannot_be_renewed_serve_to_their_end(plugin: Plugin) -> None:
    clock = SkippingClock()
    credentials = plugin.credentials(clock)
    plugin.answer(token="one", expirationTimestamp=in_ten_minutes(clock))
    await token(credentials)
    plugin.answer(code=3, stderr="the network is down")
    clock.ahead_seconds += 593
    assert await token(credentials) == "one"
    await eventually(lambda: len(plugin.calls) == 2)
    clock.ahead_seconds += 8
    with pytest.raises(CredentialsError, match="the network is down"):
        await token(credentials)


async def test_who_gives_up_does_not_end_the_program_for_the_others(plugin: Plugin) -> None:
    fifo = plugin.directory / "answer"
    answer = fifo.read_text()
    fifo.unlink()
    os.mkfifo(fifo)  # the program waits until there is something to read
    credentials = plugin.credentials()
    impatient = asyncio.create_task(token(credentials))
    await eventually(lambda: plugin.calls)
    impatient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await impatient
    patient = asyncio.create_task(token(credentials))
    await asyncio.to_thread(fifo.write_text, answer)
    assert await patient == "one"
    assert len(plugin.calls) == 1


async def test_a_program_that_hands_out_what_has_ended_is_not_run_at_every_call(plugin: Plugin) -> None:
    clock = SkippingClock()
    plugin.answer(token="one", expirationTimestamp="2020-01-01T00:00:00Z")
    credentials = plugin.credentials(clock)
    for _ in range(3):
        assert await token(credentials) == "one"
    assert len(plugin.calls) == 1
    clock.ahead_seconds += 6
    await token(credentials)
    assert len(plugin.calls) == 2


async def test_401_runs_the_program_again_once(plugin: Plugin) -> None:
    clock = SkippingClock()
    async with StubServer().serve() as stub:
        stub.on("GET", ONE, ok(configmap()), refusal(401, "Unauthorized"), ok(configmap()))
        async with Client(plugin.credentials(clock, stub.url), clock=clock) as client:
            await client.get(CONFIGMAPS, "ns", "a")
            plugin.answer(token="two")
            clock.ahead_seconds += 60
            await client.get(CONFIGMAPS, "ns", "a")
        assert [seen.headers["Authorization"] for seen in stub.seen] == ["Bearer one", "Bearer one", "Bearer two"]


async def test_401_for_ever_does_not_run_the_program_for_ever(plugin: Plugin) -> None:
    clock = SkippingClock()
    async with StubServer().serve() as stub:
        stub.on("GET", ONE, *[refusal(401, "Unauthorized")] * 20)
        async with Client(plugin.credentials(clock, stub.url), clock=clock) as client:
            for _ in range(5):
                with pytest.raises(Unauthorized):
                    await client.get(CONFIGMAPS, "ns", "a")
    assert len(plugin.calls) == 1


# ── how its failure reads ────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_failing_program_is_named_with_its_exit_code_and_last_words(plugin: Plugin) -> None:
    plugin.exec["installHint"] = "Install it with: brew install plugin"
    plugin.answer(code=3, stderr="x" * 2000 + "\nsession expired, log in again\n")
    clock = SkippingClock()
    credentials = plugin.credentials(clock)
    with pytest.raises(CredentialsError) as caught:
        await token(credentials)
    message = str(caught.value)
    assert f"{plugin.directory / 'config'}: user 'one': exec: the command './plugin' ended with exit code 3" in message
    assert "session expired, log in again" in message and len(message) < 1000
    assert "brew install plugin" in message
    plugin.answer(token="two")
    with pytest.raises(CredentialsError):
        await token(credentials)  # and is not run again at once
    clock.ahead_seconds += 6
    assert await token(credentials) == "two"


async def test_a_program_that_is_not_there_shows_the_hint(plugin: Plugin) -> None:
    plugin.exec |= {"command": "no-such-plugin", "installHint": "Install it first."}
    with pytest.raises(
        CredentialsError, match=r"'no-such-plugin' cannot be started: No such file[^$]*Install it first\."
    ):
        await token(plugin.credentials())


async def test_a_program_that_hangs_is_ended(plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exec_plugin, "_TIMEOUT_SECONDS", 0.3)
    plugin.exec |= {"command": "sleep", "args": ["600"]}
    with pytest.raises(CredentialsError, match=r"gave no answer within 0\.3 s"):
        await token(plugin.credentials())


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("not json s3cr3t", "did not write an ExecCredential as JSON"),
        ({"status": None}, "gave no credentials; expected status.token"),
        ({"status": {}}, "gave no credentials"),
        ({"apiVersion": V1BETA1, "status": {"token": "s3cr3t"}}, f"expected ExecCredential of {V1}$"),
        ({"kind": "Token", "status": {"token": "s3cr3t"}}, "answered with Token of"),
        ({"status": {"token": {"s3cr3t": 1}}}, r"\$\.status\.token"),
        (
            {"status": {"clientCertificateData": "s3cr3t"}},
            "gave status.clientCertificateData without status.clientKeyData",
        ),
        ({"status": {"clientKeyData": "s3cr3t"}}, "gave status.clientKeyData without status.clientCertificateData"),
        ({"status": {"token": "s3cr3t", "expirationTimestamp": "soon"}}, r"\$\.status\.expirationTimestamp"),
        ({"status": {"token": "s3cr3t", "expirationTimestamp": "2030-01-01T00:00:00"}}, "without a time zone"),
    ],
)
async def test_an_answer_that_cannot_be_used_is_told_without_showing_it(
    plugin: Plugin, answer: str | dict[str, Any], message: str
) -> None:
    document = {"apiVersion": V1, "kind": "ExecCredential"}
    plugin.answer(raw=answer if isinstance(answer, str) else json.dumps(document | answer))
    with pytest.raises(CredentialsError, match=message) as caught:
        await token(plugin.credentials())
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"apiVersion": "client.authentication.k8s.io/v1alpha1"},
            "apiVersion is 'client.authentication.k8s.io/v1alpha1'",
        ),
        ({"interactiveMode": ""}, "interactiveMode is not set; expected one of: Never, IfAvailable, Always"),
        ({"interactiveMode": "Maybe"}, "interactiveMode is 'Maybe'; expected one of"),
        ({"command": ""}, "command is empty"),
    ],
)
def test_a_mistake_in_the_entry_is_told_at_the_start(plugin: Plugin, change: dict[str, Any], message: str) -> None:
    plugin.exec |= change
    with pytest.raises(CredentialsError, match=f"user 'one': exec: {message}"):
        plugin.credentials()


def test_v1beta1_may_leave_the_interactive_mode_out(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path, V1BETA1)
    plugin.exec.pop("interactiveMode")
    plugin.credentials()


class Terminal:
    closed = False

    def __init__(self, there: bool) -> None:
        self.there = there

    def isatty(self) -> bool:
        return self.there

    def fileno(self) -> int:
        return 0


async def test_a_program_that_must_ask_needs_a_terminal(plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin.exec["interactiveMode"] = "Always"
    monkeypatch.setattr(sys, "stdin", Terminal(False))
    with pytest.raises(CredentialsError, match="interactiveMode is 'Always', but there is no terminal"):
        await token(plugin.credentials())
    assert plugin.calls == []


@pytest.mark.parametrize(("mode", "interactive"), [("Always", True), ("IfAvailable", True), ("Never", False)])
async def test_a_program_is_told_whether_it_may_ask(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch, mode: str, interactive: bool
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(True))
    plugin.exec["interactiveMode"] = mode
    await token(plugin.credentials())
    assert plugin.calls[0]["info"]["spec"]["interactive"] is interactive
