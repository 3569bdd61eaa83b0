"""`plimsoll run` that cannot start says why, with an exit code of its own, and without a traceback."""

from __future__ import annotations

import asyncio
import signal
import socket
from pathlib import Path

import pytest
import yaml

from plimsoll.embedded_cluster.cluster import EmbeddedCluster
from plimsoll.embedded_cluster.http import HttpServer
from plimsoll.runtime.clock import RealClock
from plimsoll.runtime.exit_codes import ExitCode
from tests.cli.command import start
from tests.cli.running import running

pytestmark = pytest.mark.process


def kubeconfig_for(directory: Path, port: int) -> Path:
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "clusters": [{"name": "here", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "me", "user": {"token": "t"}}],
    }
    file = directory / "kubeconfig"
    file.write_text(yaml.safe_dump(kubeconfig))
    return file


def test_a_bad_file_ends_with_2_and_every_reason(tmp_path: Path) -> None:
    file = tmp_path / "plimsoll.yaml"
    file.write_text("operator:\n  readOnlyModus: true\nlogging:\n  level: loud\n")
    process = start("run", "--config", str(file), env={"PLIMSOLL_WEB_POTR": "1"})
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (ExitCode.BAD_CONFIGURATION, "")
    assert err.splitlines() == [
        f'{file}:2:3: operator.readOnlyModus: unknown key (value "true"); did you mean readOnlyMode?',
        f'{file}:4:10: logging.level: "loud" is not one of debug, info, warning, error',
        'PLIMSOLL_WEB_POTR: unknown variable (value "1"); did you mean PLIMSOLL_WEB_PORT?',
        "3 errors in the configuration; docs/configuration.md lists every key",
    ]


async def test_an_unreachable_cluster_ends_with_4(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    file = kubeconfig_for(tmp_path, port)
    async with running(tmp_path, "--kubeconfig", str(file)) as operator:
        assert await operator.exit_code() == ExitCode.CLUSTER_REFUSED
    refusal = operator.record("cannot use the cluster")
    assert refusal is not None
    assert f"127.0.0.1:{port}" in refusal["error"]


async def test_no_kubeconfig_ends_with_4_and_names_where_it_was_looked_for(tmp_path: Path) -> None:
    async with running(tmp_path, HOME=str(tmp_path), KUBECONFIG="", KUBERNETES_SERVICE_HOST="") as operator:
        assert await operator.exit_code() == ExitCode.CLUSTER_REFUSED
    refusal = operator.record("cannot use the cluster")
    assert refusal is not None
    assert f"{tmp_path}/.kube/config does not exist" in refusal["error"]


async def test_a_start_that_waits_for_an_answer_can_be_stopped(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        file = kubeconfig_for(tmp_path, silent.getsockname()[1])
        async with running(tmp_path, "--kubeconfig", str(file)) as operator:
            connection, _ = await asyncio.to_thread(silent.accept)
            with connection:
                operator.process.send_signal(signal.SIGTERM)
                assert await operator.exit_code() == ExitCode.STOPPED
    assert operator.record("signal received, stopping")


async def test_a_webhook_without_a_namespace_for_its_certificate_names_the_setting_and_the_remedy(
    tmp_path: Path,
) -> None:
    async with EmbeddedCluster(RealClock()) as cluster, HttpServer(cluster.api) as server:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        settings = ("--set", "webhook.mode=url", "--set", "webhook.port=0", "--set", "operator.namespace=nowhere")
        async with running(tmp_path, "--kubeconfig", str(tmp_path / "kubeconfig"), *settings) as operator:
            assert await operator.exit_code() == ExitCode.BAD_CONFIGURATION
    refusal = operator.record("invalid configuration")
    assert refusal is not None
    assert refusal["problem"] == (
        'operator.namespace: "nowhere" does not exist, and the webhook stores its certificate there (Secret '
        "plimsoll-webhook-tls); run kubectl create namespace nowhere, or set one that exists"
    )
