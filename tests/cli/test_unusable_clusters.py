"""A dead or refusing cluster: one clear error with a remedy, an exit code, and no flood of retries."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from aiohttp import web

from plimsoll.runtime.exit_codes import ExitCode
from tests.cli.command import start

pytestmark = pytest.mark.process


def kubeconfig_for(directory: Path, port: int) -> str:
    file = directory / "kubeconfig"
    file.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "staging",
                "contexts": [{"name": "staging", "context": {"cluster": "here", "user": "me"}}],
                "clusters": [{"name": "here", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                "users": [{"name": "me", "user": {"token": "t"}}],
            }
        )
    )
    return str(file)


@pytest.fixture
async def refusing(request: pytest.FixtureRequest) -> AsyncIterator[int]:
    """The port of an API server that answers everything but /version, or that too, with a status."""
    status, version = request.param

    async def answer(asked: web.Request) -> web.Response:
        code = version if asked.path == "/version" else status
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "no"}
        return web.json_response(body if code >= 400 else {"gitVersion": "v1.36.3"}, status=code)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield runner.addresses[0][1]
    await runner.cleanup()


async def output(*arguments: str) -> tuple[int, list[str]]:
    process = start(*arguments)
    out, err = await asyncio.to_thread(process.communicate, timeout=120)
    return process.returncode, (out + err).splitlines()


@pytest.mark.parametrize("refusing", [(401, 401)], indirect=True)
async def test_the_dashboard_says_that_a_token_may_have_expired(refusing: int, tmp_path: Path) -> None:
    code, lines = await output("dashboard", "--port", "0", "--kubeconfig", kubeconfig_for(tmp_path, refusing))
    assert code == 1
    assert len(lines) == 1, lines
    assert lines[0].startswith(f"Error: http://127.0.0.1:{refusing} rejects the credentials")
    assert "the token or client certificate may have expired: sign in again" in lines[0]


@pytest.mark.parametrize("refusing", [(401, 401)], indirect=True)
async def test_run_says_that_a_token_may_have_expired(refusing: int, tmp_path: Path) -> None:
    code, lines = await output("run", "--dry-run", "--kubeconfig", kubeconfig_for(tmp_path, refusing))
    assert code == ExitCode.CLUSTER_REFUSED
    assert len(lines) == 2, lines  # that it starts, and why it ends
    assert "may have expired: sign in again" in lines[1]


@pytest.mark.parametrize("refusing", [(403, 200)], indirect=True)
async def test_the_dashboard_names_the_permission_that_is_missing(refusing: int, tmp_path: Path) -> None:
    code, lines = await output("dashboard", "--port", "0", "--kubeconfig", kubeconfig_for(tmp_path, refusing))
    assert code == 1
    assert len(lines) == 1, lines
    assert "does not let you list pods" in lines[0]
    assert "get, list and watch on nodes, pods and workloads" in lines[0]


@pytest.mark.parametrize("command", ["dashboard", "run"])
async def test_a_dead_cluster(command: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    options = ["--port", "0"] if command == "dashboard" else ["--dry-run"]
    code, lines = await output(command, *options, "--kubeconfig", kubeconfig_for(tmp_path, port))
    assert code == (1 if command == "dashboard" else ExitCode.CLUSTER_REFUSED)
    assert len(lines) <= 2, lines
    assert f"no connection to http://127.0.0.1:{port}" in lines[-1]
