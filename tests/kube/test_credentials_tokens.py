"""Tokens in files, and the service account of a pod."""

from __future__ import annotations

from pathlib import Path

import pytest

from plimsoll.kube.client import credentials as module
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import Credentials, TokenFileIdentity, WatchedFile, in_cluster, load_credentials
from plimsoll.kube.client.errors import CredentialsError
from plimsoll.kube.types.resources import CONFIGMAPS
from tests.kube.certificates import Authority
from tests.kube.stub_server import SkippingClock, StubServer, configmap, ok, refusal

ONE = "/api/v1/namespaces/ns/configmaps/a"


async def token(credentials: Credentials) -> str:
    return (await credentials.authorization())["Authorization"].removeprefix("Bearer ")


async def test_a_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    file, clock = tmp_path / "token", SkippingClock()
    file.write_text("first\n")
    credentials = Credentials("http://one", TokenFileIdentity(WatchedFile(file, "tokenFile", clock)))
    assert await token(credentials) == "first"
    file.write_text("second\n")
    assert await token(credentials) == "first"
    clock.ahead_seconds += 61
    assert await token(credentials) == "second"


@pytest.mark.parametrize("problem", ["gone", "empty"])
async def test_a_token_outlives_a_moment_without_its_file(tmp_path: Path, problem: str) -> None:
    file, clock = tmp_path / "token", SkippingClock()
    file.write_text("first")
    credentials = Credentials("http://one", TokenFileIdentity(WatchedFile(file, "tokenFile", clock)))
    await token(credentials)
    if problem == "gone":
        file.unlink()
    else:
        file.write_text("")
    clock.ahead_seconds += 61
    assert await token(credentials) == "first"
    file.write_text("second")
    clock.ahead_seconds += 61
    assert await token(credentials) == "second"


async def test_a_refused_token_is_read_again_at_once(tmp_path: Path) -> None:
    file, clock = tmp_path / "token", SkippingClock()
    file.write_text("old")

    def rotate(_: object) -> object:
        file.write_text("new")
        return refusal(401, "Unauthorized")

    async with StubServer().serve() as stub:
        stub.on("GET", ONE, rotate, ok(configmap()))  # type: ignore[arg-type]
        identity = TokenFileIdentity(WatchedFile(file, "tokenFile", clock))
        async with Client(Credentials(stub.url, identity), clock=clock) as client:
            await client.get(CONFIGMAPS, "ns", "a")
    assert [seen.headers["Authorization"] for seen in stub.seen] == ["Bearer old", "Bearer new"]


async def test_a_token_beside_its_file_serves_until_the_file_is_there(tmp_path: Path) -> None:
    file, clock = tmp_path / "token", SkippingClock()
    credentials = Credentials("http://one", TokenFileIdentity(WatchedFile(file, "tokenFile", clock), "beside"))
    assert await token(credentials) == "beside"
    file.write_text("from file")
    assert await token(credentials) == "from file"


async def test_an_empty_token_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("\n")
    identity = TokenFileIdentity(WatchedFile(tmp_path / "token", "tokenFile", SkippingClock()))
    with pytest.raises(CredentialsError, match="the file is empty; expected a bearer token"):
        await identity.headers()


# ── in a pod ─────────────────────────────────────────────────────────────────────────────────────────────────────────

ENV = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}


@pytest.fixture
def service_account(tmp_path: Path) -> Path:
    directory = tmp_path / "serviceaccount"
    directory.mkdir()
    (directory / "token").write_text("pod-token")
    (directory / "ca.crt").write_bytes(Authority().pem)
    (directory / "namespace").write_text("plimsoll-system")
    return directory


async def test_a_pod_uses_its_service_account(
    service_account: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "SERVICE_ACCOUNT", service_account)
    credentials = load_credentials(env={**ENV, "HOME": str(tmp_path)})
    assert credentials.server == "https://10.0.0.1:6443"
    assert credentials.namespace == "plimsoll-system"
    assert await token(credentials) == "pod-token"
    context = credentials.ssl_context()
    assert context is not None and len(context.get_ca_certs()) == 1 and context.check_hostname


async def test_the_token_of_a_pod_is_read_again(service_account: Path) -> None:
    clock = SkippingClock()
    credentials = in_cluster(ENV, clock, service_account)
    (service_account / "token").write_text("next")
    clock.ahead_seconds += 61
    assert await token(credentials) == "next"


async def test_an_address_of_ipv6_is_written_in_brackets(service_account: Path) -> None:
    env = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    assert in_cluster(env, SkippingClock(), service_account).server == "https://[fd00::1]:443"


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
def test_a_pod_without_a_service_account_is_told_what_is_missing(service_account: Path, missing: str) -> None:
    (service_account / missing).unlink()
    with pytest.raises(CredentialsError, match=f"service account: .*/{missing} cannot be read"):
        in_cluster(ENV, SkippingClock(), service_account)


def test_a_pod_without_a_namespace_file_is_in_default(service_account: Path) -> None:
    (service_account / "namespace").unlink()
    assert in_cluster(ENV, SkippingClock(), service_account).namespace == "default"
