"""`plimsoll run` on a real control plane: it starts, is ready, leads, and stops in good order."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import yaml

from plimsoll.runtime.exit_codes import ExitCode
from tests.cli.running import running
from tests.eventually import eventually
from tools.controlplane.cluster import ControlPlane


def leases(control_plane: ControlPlane, namespace: str) -> dict[str, str]:
    """Who holds which lease."""
    found = control_plane.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")["items"]
    return {lease["metadata"]["name"]: lease["spec"].get("holderIdentity", "") for lease in found}


async def test_leads_serves_and_stops(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    async with running(
        tmp_path, "--kubeconfig", str(control_plane.kubeconfig), "--set", "operator.leaderElection.leaseName=captain",
        PLIMSOLL_OPERATOR_NAMESPACE=namespace, POD_NAME="plimsoll-0",
    ) as operator:  # fmt: skip
        await operator.ready()
        assert await operator.answer("/healthz") == (200, "ok\n")

        async def leading() -> bool:
            return "plimsoll_leading 1.0" in (await operator.answer("/metrics"))[1]

        await eventually(leading, "leadership")
        assert leases(control_plane, namespace)["captain"].startswith("plimsoll-0_")
        operator.process.send_signal(signal.SIGTERM)
        assert await operator.exit_code() == ExitCode.STOPPED
    assert leases(control_plane, namespace) == {"captain": ""}
    assert operator.record("signal received, stopping")
    assert not [record for record in operator.records() if record["level"] == "error"]


async def test_a_dry_run_takes_no_lease_and_writes_nothing(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    async with running(
        tmp_path, "--dry-run", "--kubeconfig", str(control_plane.kubeconfig), PLIMSOLL_OPERATOR_NAMESPACE=namespace
    ) as operator:
        await operator.ready()
        assert (await operator.logged("starting"))["read_only"] is True
        operator.process.send_signal(signal.SIGINT)
        assert await operator.exit_code() == ExitCode.STOPPED
    assert leases(control_plane, namespace) == {}


async def test_a_port_that_is_taken_is_a_configuration_error(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    first_directory, second_directory = tmp_path / "first", tmp_path / "second"
    first_directory.mkdir()
    second_directory.mkdir()
    arguments = ("--dry-run", "--kubeconfig", str(control_plane.kubeconfig))
    async with running(first_directory, *arguments) as first:
        port = (await first.logged("serving health and metrics"))["port"]
        async with running(second_directory, *arguments, "--set", f"web.port={port}") as second:
            assert await second.exit_code() == ExitCode.BAD_CONFIGURATION
        assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in second.records()[-1]["event"]


async def test_an_audit_log_that_cannot_be_written_is_a_configuration_error(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    setting = f"operator.auditLog={tmp_path}/no/such/directory"
    async with running(tmp_path, "--kubeconfig", str(control_plane.kubeconfig), "--set", setting) as operator:
        assert await operator.exit_code() == ExitCode.BAD_CONFIGURATION
    refusal = operator.record("cannot write operator.auditLog")
    assert refusal is not None
    assert refusal["file"] == f"{tmp_path}/no/such/directory"


async def test_credentials_that_are_refused(control_plane: ControlPlane, tmp_path: Path) -> None:
    kubeconfig = yaml.safe_load(control_plane.kubeconfig.read_text())
    kubeconfig["users"][0]["user"] = {"token": "nobody-knows-this-token"}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    async with running(tmp_path, "--kubeconfig", str(tmp_path / "kubeconfig")) as operator:
        assert await operator.exit_code() == ExitCode.CLUSTER_REFUSED
    refusal = operator.record("cannot use the cluster")
    assert refusal is not None
    assert "401" in refusal["error"]
    assert not any("exception" in record for record in operator.records())


@pytest.mark.parametrize("option", ["--context", "--kubeconfig"])
async def test_the_options_choose_the_cluster(control_plane: ControlPlane, tmp_path: Path, option: str) -> None:
    kubeconfig = yaml.safe_load(control_plane.kubeconfig.read_text())
    good = kubeconfig["contexts"][0]["name"]
    kubeconfig["contexts"].append({"name": "broken", "context": {"cluster": "missing", "user": "missing"}})
    kubeconfig["current-context"] = "broken" if option == "--context" else good
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(kubeconfig))
    arguments = (option, good) if option == "--context" else (option, str(file))
    KUBECONFIG = str(file) if option == "--context" else "/nonexistent"  # noqa: N806  (the variable's name)
    async with running(tmp_path, "--dry-run", *arguments, KUBECONFIG=KUBECONFIG) as operator:
        await operator.ready()
