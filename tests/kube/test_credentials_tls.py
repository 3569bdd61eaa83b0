"""TLS: whom we trust, who we are, and files that change while we run."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import load_credentials
from plimsoll.kube.client.errors import CredentialsError, KubeError, Unreachable
from plimsoll.kube.types.resources import CONFIGMAPS
from tests.kube.certificates import Authority, Signed
from tests.kube.stub_server import SkippingClock, StubServer, configmap, ok
from tests.kube.test_credentials_kubeconfig import config, write

ONE = "/api/v1/namespaces/ns/configmaps/a"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def data(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


@asynccontextmanager
async def tls_server(
    authority: Authority, directory: Path, *hosts: str, clients: Authority | None = None
) -> AsyncIterator[StubServer]:
    context = authority.server_context(directory, *(hosts or ("127.0.0.1",)), clients=clients)
    async with StubServer().serve(context) as stub:
        stub.on("GET", ONE, *[ok(configmap())] * 10)
        yield stub


async def ask(path: Path, clock: SkippingClock | None = None) -> None:
    clock = clock or SkippingClock()
    async with Client(load_credentials(path, env={}, clock=clock), clock=clock) as client:
        await client.get(CONFIGMAPS, "ns", "a")


async def test_an_authority_as_data_or_file_is_trusted(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    async with tls_server(authority, tmp_path) as stub:
        for cluster in ({"certificate-authority": "ca.crt"}, {"certificate-authority-data": data(authority.pem)}):
            await ask(write(tmp_path / "config", config(stub.url, cluster=cluster)))
    assert len(stub.seen) == 2


async def test_data_wins_over_a_file(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(Authority("another").pem)
    cluster = {"certificate-authority": "ca.crt", "certificate-authority-data": data(authority.pem)}
    async with tls_server(authority, tmp_path) as stub:
        await ask(write(tmp_path / "config", config(stub.url, cluster=cluster)))


@pytest.mark.parametrize("cluster", [{}, {"certificate-authority-data": data(Authority("another").pem)}])
async def test_any_other_authority_is_not(authority: Authority, tmp_path: Path, cluster: dict[str, Any]) -> None:
    async with tls_server(authority, tmp_path) as stub:
        with pytest.raises(Unreachable, match=r"no connection to https://.*certificate verify failed"):
            await ask(write(tmp_path / "config", config(stub.url, cluster=cluster)))
    assert stub.seen == []


async def test_checking_can_be_skipped_only_by_saying_so(authority: Authority, tmp_path: Path) -> None:
    async with tls_server(authority, tmp_path, "elsewhere.example") as stub:
        await ask(write(tmp_path / "config", config(stub.url, cluster={"insecure-skip-tls-verify": True})))


async def test_the_name_in_the_certificate_can_be_another(authority: Authority, tmp_path: Path) -> None:
    async with tls_server(authority, tmp_path, "kubernetes.default") as stub:
        cluster: dict[str, Any] = {"certificate-authority-data": data(authority.pem)}
        with pytest.raises(Unreachable, match="certificate"):
            await ask(write(tmp_path / "config", config(stub.url, cluster=cluster)))
        cluster["tls-server-name"] = "kubernetes.default"
        await ask(write(tmp_path / "config", config(stub.url, cluster=cluster)))


# ── client certificates ──────────────────────────────────────────────────────────────────────────────────────────────


def name_shown(stub: StubServer) -> str:
    certificate = stub.seen[-1].certificate
    return str(dict(part[0] for part in certificate["subject"])["commonName"]) if certificate else ""


def kubeconfig(path: Path, stub: StubServer, authority: Authority, user: dict[str, Any]) -> Path:
    return write(path, config(stub.url, cluster={"certificate-authority-data": data(authority.pem)}, user=user))


async def test_a_client_certificate_says_who_we_are(authority: Authority, tmp_path: Path) -> None:
    signed = authority.sign("jane")
    (tmp_path / "jane.crt").write_bytes(signed.certificate)
    (tmp_path / "jane.key").write_bytes(signed.key)
    users = (
        {"client-certificate": "jane.crt", "client-key": "jane.key"},
        {"client-certificate-data": data(signed.certificate), "client-key-data": data(signed.key)},
        {"client-certificate": "jane.crt", "client-key-data": data(signed.key), "token": "t"},
    )
    async with tls_server(authority, tmp_path, clients=authority) as stub:
        for user in users:
            await ask(kubeconfig(tmp_path / "config", stub, authority, user))
            assert name_shown(stub) == "jane"
        assert stub.seen[-1].headers["Authorization"] == "Bearer t"
        with pytest.raises(KubeError):
            await ask(kubeconfig(tmp_path / "config", stub, authority, {}))


async def test_the_key_leaves_no_file_behind(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    signed = authority.sign("jane")
    user = {"client-certificate-data": data(signed.certificate), "client-key-data": data(signed.key)}
    async with tls_server(authority, tmp_path, clients=authority) as stub:
        await ask(kubeconfig(tmp_path / "config", stub, authority, user))
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_key_with_a_pass_phrase_is_refused_and_nobody_is_asked_for_it(authority: Authority, tmp_path: Path) -> None:
    signed = authority.sign("jane", password=b"hush")
    user = {"client-certificate-data": data(signed.certificate), "client-key-data": data(signed.key)}
    with pytest.raises(CredentialsError, match="client-key is encrypted"):
        load_credentials(write(tmp_path / "config", config("https://one", user=user)), env={})


def test_a_key_of_another_certificate_is_refused(authority: Authority, tmp_path: Path) -> None:
    user = {
        "client-certificate-data": data(authority.sign("jane").certificate),
        "client-key-data": data(authority.sign("john").key),
    }
    with pytest.raises(CredentialsError, match="do not form a pair"):
        load_credentials(write(tmp_path / "config", config("https://one", user=user)), env={})


async def test_rotated_files_are_read_again(authority: Authority, tmp_path: Path) -> None:
    def rotate(signed: Signed, *, halfway: bool = False) -> None:
        (tmp_path / "me.crt").write_bytes(signed.certificate)
        if not halfway:
            (tmp_path / "me.key").write_bytes(signed.key)

    rotate(authority.sign("first"))
    clock = SkippingClock()
    user = {"client-certificate": "me.crt", "client-key": "me.key"}
    async with tls_server(authority, tmp_path, clients=authority) as stub:
        path = kubeconfig(tmp_path / "config", stub, authority, user)
        async with Client(load_credentials(path, env={}, clock=clock), clock=clock) as client:
            await client.get(CONFIGMAPS, "ns", "a")
            second = authority.sign("second")
            rotate(second, halfway=True)
            clock.ahead_seconds += 61
            await client.get(CONFIGMAPS, "ns", "a")  # a pair that does not match is not used
            assert name_shown(stub) == "first"
            rotate(second)
            await client.get(CONFIGMAPS, "ns", "a")
            assert name_shown(stub) == "first"  # files are not read at every call
            clock.ahead_seconds += 61
            await client.get(CONFIGMAPS, "ns", "a")
            assert name_shown(stub) == "second"


async def test_one_context_serves_until_something_changes(authority: Authority, tmp_path: Path) -> None:
    async with tls_server(authority, tmp_path) as stub:
        credentials = load_credentials(kubeconfig(tmp_path / "config", stub, authority, {}), env={})
        assert credentials.ssl_context() is credentials.ssl_context()
