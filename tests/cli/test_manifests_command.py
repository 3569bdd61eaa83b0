"""`plimsoll manifests`: what a real cluster makes of it."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
import yaml

from plimsoll.runtime.exit_codes import ExitCode
from tests.cli.command import plimsoll
from tests.cli.running import running
from tests.eventually import eventually
from tools.controlplane.cluster import ControlPlane


def test_the_file_and_the_options_become_the_configuration_in_the_cluster(tmp_path: Path) -> None:
    file = tmp_path / "plimsoll.yaml"
    file.write_text("logging: {format: console, level: debug}\ncontrollers: {reconcileInterval: 90s}\n")
    result = plimsoll(
        "manifests", "--config", str(file), "--set", "web.port=9000", "--namespace", "capacity",
        env={"PLIMSOLL_LOGGING_LEVEL": "error"},
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    (config_map,) = [m for m in yaml.safe_load_all(result.stdout) if m["kind"] == "ConfigMap"]
    assert config_map["metadata"]["namespace"] == "capacity"
    assert yaml.safe_load(config_map["data"]["plimsoll.yaml"]) == {
        "operator": {"namespace": "capacity"},
        "controllers": {"reconcileInterval": "1m30s"},
        "web": {"host": "*", "port": 9000},
        "webhook": {"host": "*", "mode": "service"},
        "logging": {"format": "console", "level": "debug"},
    }
    checked = plimsoll("config", "check", "-", stdin=config_map["data"]["plimsoll.yaml"])
    assert checked.exit_code == 0, checked.stderr


def test_json_is_one_list_with_the_same_objects() -> None:
    as_json = json.loads(plimsoll("manifests", "--image", "x", "-o", "json").stdout)
    assert (as_json["kind"], as_json["apiVersion"]) == ("List", "v1")
    assert as_json["items"] == list(yaml.safe_load_all(plimsoll("manifests", "--image", "x").stdout))


def test_a_file_on_standard_input() -> None:
    result = plimsoll("manifests", "--config", "-", "--image", "x", stdin="web: {port: 9999}")
    assert "containerPort: 9999" in result.stdout
    assert "port: 9999" in next(
        m["data"]["plimsoll.yaml"] for m in yaml.safe_load_all(result.stdout) if m["kind"] == "ConfigMap"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--namespace", "Not A Name"], '--namespace: operator.namespace: "Not A Name" is not the name of a namespace'),
        (["--controllers", "plcement"], 'controllers.enabled: "plcement" is not one of'),
        (["--set", "web.port=0"], "web.port: 0 selects a random port"),
    ],
)
def test_bad_arguments(arguments: list[str], message: str) -> None:
    result = plimsoll("manifests", *arguments)
    assert (result.exit_code, result.stdout) == (ExitCode.BAD_CONFIGURATION, "")
    assert message in result.stderr


def allowed(control_plane: ControlPlane, user: str, namespace: str, group: str, kind: str, verb: str) -> bool:
    asked = {"namespace": namespace, "group": group, "resource": kind, "verb": verb}
    review = {"spec": {"user": user, "resourceAttributes": asked}}
    answer = control_plane.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


def pods(control_plane: ControlPlane, namespace: str) -> list[object]:
    found: list[object] = control_plane.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    return found


def uninstall(control_plane: ControlPlane, text: str) -> None:
    """What lies outside the test's namespace goes: a webhook left behind would be asked about every later test's pods."""
    scoped_name = [m for m in yaml.safe_load_all(text) if "namespace" not in m["metadata"] and m["kind"] != "Namespace"]
    control_plane.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=yaml.safe_dump_all(scoped_name))


async def test_a_cluster_takes_them_and_their_rights_are_enough(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    text = plimsoll("manifests", "--namespace", namespace, "--image", "registry.invalid/plimsoll:1").stdout
    try:
        printed = control_plane.kubectl("apply", "--server-side", "-f", "-", stdin=text)
        assert "deployment.apps/plimsoll serverside-applied" in printed
        # Nothing was defaulted away, pruned or warned about: what the server holds is what was asked for.
        assert control_plane.kubectl("diff", "--server-side", "-f", "-", stdin=text) == ""
        # The namespace admits only pods without any privilege: ours are let in.
        await eventually(lambda: len(pods(control_plane, namespace)) == 2, "two pods of the operator")
        account = f"system:serviceaccount:{namespace}:plimsoll"
        assert allowed(control_plane, account, namespace, "events.k8s.io", "events", "create")
        kubeconfig = control_plane.kubeconfig_for(account, ["system:serviceaccounts", "system:authenticated"])
        async with running(
            tmp_path, "--kubeconfig", str(kubeconfig), PLIMSOLL_OPERATOR_NAMESPACE=namespace
        ) as operator:
            await operator.ready()

            async def leading() -> bool:
                return "plimsoll_leading 1.0" in (await operator.answer("/metrics"))[1]

            await eventually(leading, "leadership, with the rights of the manifests alone")
            operator.process.send_signal(signal.SIGTERM)
            assert await operator.exit_code() == ExitCode.STOPPED
        assert not [r for r in operator.records() if r["level"] in ("warning", "error")]
    finally:
        uninstall(control_plane, text)


async def test_read_only_manifests_are_enough_for_read_only_mode_and_for_no_more(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    text = plimsoll("manifests", "--namespace", namespace, "--read-only").stdout
    try:
        control_plane.kubectl("apply", "--server-side", "-f", "-", stdin=text)
        account = f"system:serviceaccount:{namespace}:plimsoll"
        kubeconfig = control_plane.kubeconfig_for(account, ["system:serviceaccounts", "system:authenticated"])
        (config_map,) = [m for m in yaml.safe_load_all(text) if m["kind"] == "ConfigMap"]
        file = tmp_path / "plimsoll.yaml"
        file.write_text(config_map["data"]["plimsoll.yaml"])
        async with running(tmp_path, "--kubeconfig", str(kubeconfig), "--config", str(file)) as operator:
            assert (await operator.logged("starting"))["read_only"] is True
            await operator.ready()
        for group, kind, verb in (
            ("", "pods", "patch"),
            ("", "configmaps", "create"),
            ("coordination.k8s.io", "leases", "create"),
            ("events.k8s.io", "events", "create"),
        ):
            assert not allowed(control_plane, account, namespace, group, kind, verb)
    finally:
        uninstall(control_plane, text)
