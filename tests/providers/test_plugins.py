"""Providers are found where they are installed; one that is broken is reported and stops nobody else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from plimsoll.config.providers import Kwok, Providers, Vpsie
from plimsoll.config.sources import ConfigurationError
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import load_credentials
from plimsoll.kube.types.resources import SECRETS
from plimsoll.providers.errors import OfferingUnavailable, ProviderUnreachable, Unauthorised
from plimsoll.providers.kwok.provider import KwokProvider
from plimsoll.providers.protocol import Scope
from plimsoll.providers.registry import LoadedProviders, load_providers, provider_settings
from plimsoll.providers.vpsie.cluster_nodes import ClusterNodesProvider
from plimsoll.providers.vpsie.credentials import secret_in_cluster
from plimsoll.providers.vpsie.servers import ServersProvider
from plimsoll.runtime.clock import RealClock
from tests.providers import build
from tools.controlplane.cluster import ControlPlane

pytestmark = pytest.mark.process

EXAMPLE = Path(__file__).parents[2] / "examples" / "provider_by_files"
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: nowhere
contexts: [{name: nowhere, context: {cluster: nowhere, user: nobody}}]
clusters: [{name: nowhere, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: nobody, user: {token: none}}]
"""


@pytest.fixture
async def nowhere(tmp_path: Path) -> AsyncIterator[Client]:
    """A client of a cluster that there is not: finding providers asks nobody."""
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    async with Client(load_credentials(tmp_path / "kubeconfig"), clock=RealClock()) as client:
        yield client


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that packages can be installed into, for one test."""
    where = tmp_path / "site"
    where.mkdir()
    monkeypatch.syspath_prepend(where)
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return where


def find(client: Client, *wanted: str, **config: Any) -> LoadedProviders:
    return load_providers(Providers(**config), client=client, namespace="home", clock=RealClock(), wanted=wanted)


def install(site: Path, code: str, entry: str = "acme = broken:Acme") -> None:
    """A package as an installer would leave it."""
    (site / "broken.py").write_text(code)
    information = site / "broken-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[plimsoll.providers]\n{entry}\n")


def install_example(site: Path) -> None:
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is None:
        assert os.environ.get("CI", "").lower() != "true", "uv must be there in CI"
        pytest.skip("uv is not installed, and nothing else builds a package without a network")
    where = ["--python", sys.executable, "--target", str(site)]
    subprocess.run([uv, "pip", "install", "--quiet", "--offline", "--no-deps", *where, str(EXAMPLE)], check=True)


GOOD = """
class Acme:
    name = "acme"
    def __init__(self, setup): self.setup = setup
    async def offerings(self, datacenter): return []
    async def list(self, scope): return []
    async def create(self, request): raise NotImplementedError
    async def delete(self, machine_id): pass
    async def capabilities(self): raise NotImplementedError
    async def close(self): raise OSError("stuck")
"""


async def test_our_own_are_found_like_any_other(nowhere: Client) -> None:
    found = find(nowhere)
    assert isinstance(found.usable["kwok"], KwokProvider)
    assert isinstance(found.usable["vpsie"], ServersProvider)
    assert found.failures == {}
    await found.close()


async def test_the_example_package_is_installed_and_used(site: Path, nowhere: Client, tmp_path: Path) -> None:
    install_example(site)
    machines = tmp_path / "machines"
    machines.mkdir()
    settings = (f"files.directory={machines}", "files.cpu=16", "files.memory=64Gi")
    provider = find(nowhere, settings=settings).usable["files"]
    (offering,) = await provider.offerings("")
    assert offering.capacity["memory"].units == 64 * 2**30
    asked = build.request("k1", offering=offering.id)
    machine = await provider.create(asked)
    assert await provider.create(asked) == machine
    assert list(await provider.list(Scope("cluster-1", "workers"))) == [machine]
    assert list(await provider.list(Scope("cluster-2"))) == []
    assert [file.name for file in machines.iterdir()] == ["k1.json"]
    await provider.delete(machine.id)
    await provider.delete(machine.id)
    assert list(await provider.list(Scope())) == []
    with pytest.raises(OfferingUnavailable):
        await provider.create(build.request("k2"))
    machines.rmdir()
    with pytest.raises(ProviderUnreachable):
        await provider.create(asked)
    with pytest.raises(ProviderUnreachable):
        await provider.list(Scope())
    assert "files.cpu=…" in find(nowhere, "files").failures["files"]


async def test_a_provider_gets_its_own_settings_and_no_others(site: Path, nowhere: Client) -> None:
    install(site, GOOD)
    found = find(nowhere, settings=("acme.region=north", "acme.note=a=b.c", "other.region=south"))
    setup = found.usable["acme"].setup  # type: ignore[attr-defined]
    assert setup.settings == {"region": "north", "note": "a=b.c"}
    assert (setup.namespace, setup.client) == ("home", nowhere)
    assert "no package provides this name" in found.failures["other"]


@pytest.mark.parametrize("item", ["acme", "acme=1", "acme.region", ".region=1", "acme.=1"])
def test_a_setting_that_names_no_provider_or_no_key_is_refused(item: str) -> None:
    with pytest.raises(ConfigurationError, match=r"providers\.settings: .* write it like"):
        provider_settings(Providers(settings=(item,)))


def test_a_setting_may_be_there_once_and_its_value_is_not_shown() -> None:
    with pytest.raises(ConfigurationError, match=r"acme\.token is given twice") as refusal:
        provider_settings(Providers(settings=("acme.token=hidden", "acme.token=hidden too")))
    assert "hidden" not in str(refusal.value)


@pytest.mark.parametrize(
    ("code", "entry", "said"),
    [
        ("raise RuntimeError('no licence')", "acme = broken:Acme", "no licence"),
        ("x = 1", "acme = broken:Missing", "Missing"),
        ("def Acme(setup): raise OSError('disk')", "acme = broken:Acme", "disk"),
        (
            "class Acme:\n    name = 'acme'\n    def __init__(self, setup): pass",
            "acme = broken:Acme",
            "offerings, list",
        ),
        (GOOD, "emca = broken:Acme", '"acme"'),
        ("import sys\nsys.exit(3)", "acme = broken:Acme", "SystemExit"),
    ],
)
async def test_one_that_cannot_be_made_is_reported_and_the_others_work(
    site: Path, nowhere: Client, code: str, entry: str, said: str
) -> None:
    install(site, code, entry)
    name = entry.partition(" ")[0]
    with capture_logs() as logs:
        found = find(nowhere)
    assert {"kwok", "vpsie"} <= set(found.usable)
    assert name not in found.usable
    assert said in found.failures[name]
    assert [(record["log_level"], record["provider"]) for record in logs] == [("error", name)]


async def test_only_those_that_are_wanted_are_made(site: Path, nowhere: Client) -> None:
    install(site, "raise RuntimeError")
    assert set(find(nowhere, "kwok").usable) == {"kwok"}
    assert find(nowhere, "kwok").failures == {}
    assert set(find(nowhere, "kwok", "moon").failures) == {"moon"}


async def test_one_that_cannot_be_closed_keeps_no_other_from_it(site: Path, nowhere: Client) -> None:
    install(site, GOOD)
    with capture_logs() as logs:
        await find(nowhere).close()
    assert [record["provider"] for record in logs] == ["acme"]


async def test_the_configuration_of_ours_reaches_them(nowhere: Client) -> None:
    provider = find(nowhere, kwok=Kwok(offerings=())).usable["kwok"]
    assert await provider.offerings("") == []


async def test_what_vpsie_orders_can_be_chosen(nowhere: Client) -> None:
    assert isinstance(find(nowhere, vpsie=Vpsie(order="cluster-nodes")).usable["vpsie"], ClusterNodesProvider)


async def test_vpsie_reads_the_secret_that_the_configuration_names(control_plane: ControlPlane, namespace: str) -> None:
    async with Client(load_credentials(control_plane.kubeconfig), clock=RealClock()) as client:
        config = Providers(vpsie=Vpsie(secret_name="mine", secret_namespace=namespace))
        found = load_providers(config, client=client, namespace=namespace, clock=RealClock(), wanted=["vpsie"])
        provider = found.usable["vpsie"]
        with pytest.raises(Unauthorised, match=f"there is no Secret {namespace}/mine; create it with clientId"):
            await provider.list(Scope())
        body = {"metadata": {"name": "mine"}, "stringData": {"token": "t-hidden", "url": "http://127.0.0.1:1/v2"}}
        await client.create(SECRETS, namespace, body)
        data = await secret_in_cluster(client, namespace, "mine")()
        assert set(data) == {"token", "url"}
        assert "hidden" not in repr(await client.get(SECRETS, namespace, "mine"))
        with pytest.raises(ProviderUnreachable, match="no connection"):
            await provider.list(Scope())
        await found.close()
