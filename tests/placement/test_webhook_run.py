"""`plimsoll run` with its webhook: asked while it runs, forgotten when it stops, and not there at all where it only watches."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from plimsoll.controllers.placement.webhook_configuration import SECRET
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import NotFound
from plimsoll.kube.types.resources import SECRETS
from plimsoll.runtime.exit_codes import ExitCode
from tests.cli.running import running
from tests.placement.webhook_cluster import registered_by
from tools.controlplane.cluster import ControlPlane

URL_MODE = ("--controllers", "placement", "--set", "webhook.mode=url", "--set", "webhook.port=0")
NOBODYS = ("--set", "placement.namespaceSelector=placement=nobody")  # no pod of another test is to be asked about


def arguments(control_plane: ControlPlane, namespace: str, *more: str) -> tuple[str, ...]:
    return (
        "--kubeconfig",
        str(control_plane.kubeconfig),
        "--set",
        f"operator.namespace={namespace}",
        *URL_MODE,
        *NOBODYS,
        *more,
    )


async def test_registered_until_it_is_told_to_stop(
    control_plane: ControlPlane, client: Client, namespace: str, tmp_path: Path
):
    async with running(tmp_path, *arguments(control_plane, namespace)) as process:
        await process.logged("webhook registered")
        assert await registered_by(client) is not None
        process.process.send_signal(signal.SIGTERM)
        assert await process.exit_code() == ExitCode.STOPPED
    assert await registered_by(client) is None


async def test_a_dry_run_registers_nothing(control_plane: ControlPlane, client: Client, namespace: str, tmp_path: Path):
    async with running(tmp_path, *arguments(control_plane, namespace, "--dry-run")) as process:
        await process.ready()
        process.process.send_signal(signal.SIGTERM)
        assert await process.exit_code() == ExitCode.STOPPED
        assert process.record("serving admission webhook") is None
    assert await registered_by(client) is None
    with pytest.raises(NotFound):
        await client.get(SECRETS, namespace, SECRET)


async def test_an_address_that_is_not_ours_ends_it_with_advice(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
):
    more = ("--set", "webhook.host=192.0.2.1")
    async with running(tmp_path, *arguments(control_plane, namespace, *more)) as process:
        assert await process.exit_code() == ExitCode.BAD_CONFIGURATION
        assert "webhook.host" in str(process.records())
