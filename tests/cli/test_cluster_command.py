"""`plimsoll cluster` as a person uses it, and the operator that is pointed at it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import load_credentials
from plimsoll.kube.types.resources import DEPLOYMENTS, NODES
from plimsoll.runtime.clock import RealClock
from plimsoll.runtime.exit_codes import ExitCode
from tests.cli.command import PLIMSOLL, environment, plimsoll
from tests.cli.running import STOP_SECONDS_AT_MOST, running
from tests.eventually import eventually

pytestmark = pytest.mark.process

_WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}},
    },
}


@asynccontextmanager
async def started(kubeconfig: Path, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        str(PLIMSOLL), "cluster", "--kubeconfig", str(kubeconfig), *arguments,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, env=environment(),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        first = (await process.stdout.readline()).decode()
        assert first.startswith("The cluster is at http://127.0.0.1:")
        assert (await process.stdout.readline()).decode() == f"export KUBECONFIG={kubeconfig}\n"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_it_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    file, kubeconfig = tmp_path / "web.yaml", tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(_WEB))
    lines = ("--nodes", "2 zone=a class=spot", "--nodes", "1 zone=b", "--speed", "60", "--file", str(file))
    async with started(kubeconfig, *lines) as process:
        async with Client(load_credentials(kubeconfig), clock=RealClock()) as client:
            nodes = (await client.list(NODES)).items
            assert sorted(node.labels["topology.kubernetes.io/zone"] for node in nodes) == ["a", "a", "b"]

            async def is_ready() -> bool:
                return (await client.get(DEPLOYMENTS, "default", "web")).status.ready_replicas == 2

            await eventually(is_ready, "two ready pods")
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), STOP_SECONDS_AT_MOST) == 0


async def test_the_operator_runs_against_it(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with started(kubeconfig), running(tmp_path, "--kubeconfig", str(kubeconfig), "--dry-run") as operator:
        await operator.ready()


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["--nodes", "3 zonk=a"], "'zonk=a' in nodes '3 zonk=a' is not known"),
        (["--speed", "0"], "--speed"),
        (["--pod-start", "soon"], "--pod-start"),
        (["--file", "/nowhere.yaml"], "/nowhere.yaml"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_starts(arguments: list[str], hint: str) -> None:
    result = plimsoll("cluster", *arguments)
    assert result.exit_code == ExitCode.BAD_CONFIGURATION
    assert result.stdout == ""
    assert hint in result.stderr


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("a: [", "not valid YAML"),
        ("- 1\n", "a document is not an object"),
        ("apiVersion: v2\nkind: Pod\nmetadata: {name: x}\n", "Pod x: the cluster does not serve this kind in 'v2'"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {}\n",
            'Pod "x" is invalid: spec.containers: Required value',
        ),
    ],
)
def test_a_faulty_file_is_named_with_its_fault(tmp_path: Path, text: str, hint: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    result = plimsoll("cluster", "--file", str(file))
    assert result.exit_code == ExitCode.BAD_CONFIGURATION
    assert f"{file}: " in result.stderr
    assert hint in result.stderr
