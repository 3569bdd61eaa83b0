"""Proxies: which one, when none, and what goes through."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import load_credentials
from plimsoll.kube.client.errors import CredentialsError, Unreachable
from plimsoll.kube.client.proxy import proxy_for
from plimsoll.kube.types.resources import CONFIGMAPS
from tests.kube.certificates import Authority
from tests.kube.stub_server import SkippingClock
from tests.kube.test_credentials_kubeconfig import config, write
from tests.kube.test_credentials_tls import data, tls_server


@pytest.mark.parametrize(
    ("server", "env", "expected"),
    [
        ("https://k8s.example:6443", {}, None),
        ("https://k8s.example:6443", {"HTTPS_PROXY": "http://proxy:3128"}, "http://proxy:3128"),
        ("https://k8s.example:6443", {"https_proxy": "proxy:3128"}, "http://proxy:3128"),
        ("https://k8s.example:6443", {"HTTP_PROXY": "http://proxy:3128"}, None),
        ("http://k8s.example", {"HTTP_PROXY": "http://proxy:3128"}, "http://proxy:3128"),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": "http://proxy:3128"}, None),
        ("https://[::1]:6443", {"HTTPS_PROXY": "http://proxy:3128"}, None),
        ("https://localhost:6443", {"HTTPS_PROXY": "http://proxy:3128"}, None),
    ],
)
def test_the_environment_names_the_proxy(server: str, env: dict[str, str], expected: str | None) -> None:
    proxy = proxy_for(server, env)
    assert (str(proxy) if proxy else None) == expected


@pytest.mark.parametrize(
    ("server", "no_proxy", "direct"),
    [
        ("https://k8s.example:6443", "*", True),
        ("https://k8s.example:6443", "k8s.example", True),
        ("https://k8s.example:6443", "example", True),
        ("https://k8s.example:6443", ".example", True),
        ("https://k8s.example:6443", "*.example", True),
        ("https://example", ".example", False),
        ("https://badexample", "example", False),
        ("https://k8s.example:6443", "K8S.EXAMPLE", True),
        ("https://k8s.example:6443", "k8s.example:6443", True),
        ("https://k8s.example:6443", "k8s.example:443", False),
        ("https://10.1.2.3:6443", "10.0.0.0/8", True),
        ("https://11.1.2.3:6443", "10.0.0.0/8", False),
        ("https://10.1.2.3:6443", "10.1.2.3", True),
        ("https://10.1.2.3:6443", "10.1.2.3:6443", True),
        ("https://[fd00::1]:6443", "fd00::/8", True),
        ("https://k8s.example:6443", "other, ,svc , k8s.example", True),
        ("https://k8s.example:6443", "", False),
    ],
)
def test_no_proxy(server: str, no_proxy: str, direct: bool) -> None:
    env = {"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": no_proxy}
    assert (proxy_for(server, env) is None) is direct


def test_a_proxy_that_we_cannot_use_is_refused_and_its_password_not_shown() -> None:
    with pytest.raises(CredentialsError, match="HTTPS_PROXY: expected http://HOST:PORT") as caught:
        proxy_for("https://k8s.example", {"HTTPS_PROXY": "socks5://me:hush@proxy:1080"})
    assert "hush" not in str(caught.value)


def test_the_entry_of_the_cluster_wins_over_the_environment(tmp_path: Path) -> None:
    env = {"HTTPS_PROXY": "http://other:1", "NO_PROXY": "*"}
    path = write(tmp_path / "config", config("https://one", cluster={"proxy-url": "http://proxy:3128"}))
    assert str(load_credentials(path, env=env).proxy) == "http://proxy:3128"


class TunnelProxy:
    """Answers CONNECT, and carries bytes both ways; or refuses."""

    def __init__(self, *, refuse: bool = False) -> None:
        self.refuse = refuse
        self.url = ""
        self.heads: list[str] = []

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        if self.refuse:
            writer.write(b"HTTP/1.1 403 Forbidden by policy\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        host, port = head.split()[1].rsplit(":", 1)
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(carry(reader, far_writer), carry(far_reader, writer))

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[TunnelProxy]:
        server = await asyncio.start_server(self.handle, "127.0.0.1", 0)
        self.url = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            await server.wait_closed()


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def test_a_call_goes_through_the_proxy_with_its_password(tmp_path: Path) -> None:
    authority = Authority()
    async with tls_server(authority, tmp_path) as stub, TunnelProxy().serve() as proxy:
        cluster = {"certificate-authority-data": data(authority.pem), "proxy-url": f"http://me:hush@{proxy.url}"}
        path = write(tmp_path / "config", config(stub.url, cluster=cluster, user={"token": "t"}))
        async with Client(load_credentials(path, env={}), clock=SkippingClock()) as client:
            await client.get(CONFIGMAPS, "ns", "a")
        assert len(stub.seen) == 1
    (head,) = proxy.heads
    assert head.startswith(f"CONNECT {stub.url.removeprefix('https://')} ")
    assert f"Proxy-Authorization: Basic {base64.b64encode(b'me:hush').decode()}" in head
    assert "Bearer" not in head  # our token is for the API server alone


async def test_a_proxy_that_refuses_leaves_no_doubt_about_a_write(tmp_path: Path) -> None:
    async with TunnelProxy(refuse=True).serve() as proxy:
        cluster = {"insecure-skip-tls-verify": True, "proxy-url": f"http://{proxy.url}"}
        path = write(tmp_path / "config", config("https://one.invalid", cluster=cluster))
        async with Client(load_credentials(path, env={}), clock=SkippingClock()) as client:
            with pytest.raises(Unreachable, match="403"):
                await client.evict("ns", "p", uid="u1")
