"""The control plane as a whole: what it can do, and what it leaves behind."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.realcluster import StartControlPlane
from tools.controlplane import cluster as cluster_module
from tools.controlplane.api import ApiError, answers
from tools.controlplane.cluster import ControlPlane
from tools.controlplane.leftovers import remove_leftovers
from tools.controlplane.ports import ReservedPorts
from tools.controlplane.process import ComponentFailedError, started_at, wait_until_gone

REPOSITORY = Path(__file__).parents[2]
API_SERVER_ALONE = {"tokens": False, "controller-manager": False, "scheduler": False, "kwok": False}
WEB = ["create", "deployment", "web", "--image=web", "--replicas=2"]


def get(cluster: ControlPlane, path: str, token: str) -> Any:
    """A request with nothing of the tools' own: what any client would do with these credentials."""
    request = urllib.request.Request(cluster.server + path, headers={"Authorization": f"Bearer {token}"})
    context = ssl.create_default_context(cafile=str(cluster.ca_file))
    with urllib.request.urlopen(request, context=context, timeout=10) as response:
        return json.load(response)


def status_of(cluster: ControlPlane, path: str, token: str) -> int:
    try:
        get(cluster, path, token)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    return 200


def pods(cluster: ControlPlane, namespace: str) -> list[Any]:
    return list(cluster.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"])


def ready(pod: Any) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def bare_pod(name: str, node: str = "", **annotations: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "annotations": {f"controlplane.test/{key.replace('_', '-')}": value for key, value in annotations.items()},
        },
        "spec": {"containers": [{"name": "main", "image": "main"}], **({"nodeName": node} if node else {})},
    }


# --- a whole cluster -------------------------------------------------------------------------------------------------


def test_it_is_the_version_that_was_asked_for(control_plane: ControlPlane) -> None:
    version = get(control_plane, "/version", control_plane.admin_token)
    assert version["gitVersion"] == f"v{control_plane.binaries.versions.kubernetes}"
    assert f"{version['major']}.{version['minor']}" == control_plane.binaries.versions.kubernetes_minor
    assert f"Server Version: {version['gitVersion']}" in control_plane.kubectl("version")


def test_a_deployment_is_created_scheduled_and_ready(
    control_plane: ControlPlane, namespace: str, kwok_nodes: Callable[[str], list[str]]
) -> None:
    names = kwok_nodes("2 zone=a")
    control_plane.kubectl(*WEB, f"--namespace={namespace}")
    control_plane.kubectl("rollout", "status", "deployment/web", f"--namespace={namespace}")
    running = pods(control_plane, namespace)
    assert len(running) == 2
    assert {pod["spec"]["nodeName"] for pod in running} == set(names)
    assert all(ready(pod) and pod["status"]["podIP"] and pod["status"]["hostIP"] for pod in running)


def test_a_job_completes(control_plane: ControlPlane, namespace: str, kwok_nodes: Callable[[str], list[str]]) -> None:
    kwok_nodes("1")
    control_plane.kubectl("create", "job", "once", "--image=once", f"--namespace={namespace}")
    control_plane.kubectl("wait", "--for=condition=Complete", "job/once", f"--namespace={namespace}", "--timeout=30s")


def test_a_namespace_goes_with_its_pods_even_where_no_node_lets_them_go(
    control_plane: ControlPlane, kwok_nodes: Callable[[str], list[str]]
) -> None:
    kwok_nodes("1")
    name = control_plane.add_namespace(labels={"team": "blue"})
    assert control_plane.request("GET", f"/api/v1/namespaces/{name}")["metadata"]["labels"]["team"] == "blue"
    control_plane.kubectl(*WEB, f"--namespace={name}")
    control_plane.kubectl("rollout", "status", "deployment/web", f"--namespace={name}")
    control_plane.request("POST", f"/api/v1/namespaces/{name}/pods", bare_pod("stuck", "no-such-node"))
    control_plane.remove_namespace(name)
    control_plane.wait_for(lambda: not pods(control_plane, name), "the pods to vanish", timeout=10)
    control_plane.kubectl("wait", "--for=delete", f"namespace/{name}", "--timeout=60s")


def test_several_run_at_once_start_in_seconds_and_know_nothing_of_each_other(
    control_plane: ControlPlane, new_control_plane: StartControlPlane
) -> None:
    started = time.monotonic()
    other = new_control_plane()
    # About 3 s on two idle cores; the margin is for a busy machine.
    assert time.monotonic() - started < 20
    assert other.server != control_plane.server
    other.add_nodes("1 prefix=elsewhere")
    assert "elsewhere-0" not in control_plane.kubectl("get", "nodes", "--output=name")
    assert status_of(other, "/api/v1/nodes", control_plane.admin_token) == 401
    # Nor would one take the other's server for its own, were they ever to meet on one port.
    assert answers(f"{other.server}/readyz", other.ca_file)
    assert not answers(f"{other.server}/readyz", control_plane.ca_file)


# --- nodes -----------------------------------------------------------------------------------------------------------


def test_nodes_are_usable_when_they_are_returned(
    control_plane: ControlPlane, kwok_nodes: Callable[[str], list[str]]
) -> None:
    names = kwok_nodes("3 zone=b class=spot cpu=8 memory=32Gi prefix=n")
    assert names == ["n-0", "n-1", "n-2"]
    node = control_plane.request("GET", "/api/v1/nodes/n-2")
    assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "b"
    assert node["metadata"]["labels"]["karpenter.sh/capacity-type"] == "spot"
    assert node["status"]["allocatable"]["memory"] == "32Gi"
    assert not node["spec"].get("taints")
    assert {condition["type"]: condition["status"] for condition in node["status"]["conditions"]}["Ready"] == "True"
    lease = control_plane.request("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n-2")
    assert lease["spec"]["renewTime"]
    assert kwok_nodes("2 prefix=n") == ["n-3", "n-4"]


def test_a_node_is_not_ready_while_its_annotation_says_so(
    control_plane: ControlPlane, kwok_nodes: Callable[[str], list[str]]
) -> None:
    (name,) = kwok_nodes("1 annotation:controlplane.test/ready=false")

    def status() -> str:
        conditions = control_plane.request("GET", f"/api/v1/nodes/{name}")["status"].get("conditions", [])
        return str(next((condition["status"] for condition in conditions if condition["type"] == "Ready"), None))

    control_plane.wait_for(lambda: status() == "False", "the node to be unready")
    control_plane.kubectl("annotate", "node", name, "controlplane.test/ready-")
    control_plane.wait_for(lambda: status() == "True", "the node to be ready")
    control_plane.kubectl("annotate", "node", name, "controlplane.test/ready=false")
    control_plane.wait_for(lambda: status() == "False", "the node to be unready again")


def test_annotations_of_a_pod_steer_its_readiness_and_its_end(
    control_plane: ControlPlane, namespace: str, kwok_nodes: Callable[[str], list[str]]
) -> None:
    kwok_nodes("1")
    path = f"/api/v1/namespaces/{namespace}/pods"
    control_plane.request("POST", path, bare_pod("moody", ready="false"))
    control_plane.request("POST", path, bare_pod("late", ready_after="1h"))
    control_plane.request("POST", path, bare_pod("clinging", gone_after="1h"))

    def pod(name: str) -> Any:
        return control_plane.request("GET", f"{path}/{name}")

    control_plane.wait_for(lambda: pod("clinging")["status"]["phase"] == "Running", "a pod to run")
    control_plane.wait_for(lambda: pod("moody")["status"]["phase"] == "Running", "a pod to run, unready")
    assert not ready(pod("moody"))
    control_plane.kubectl("annotate", "pod", "moody", "controlplane.test/ready-", f"--namespace={namespace}")
    control_plane.wait_for(lambda: ready(pod("moody")), "it to be ready")
    control_plane.kubectl("annotate", "pod", "moody", "controlplane.test/ready=false", f"--namespace={namespace}")
    control_plane.wait_for(lambda: not ready(pod("moody")), "it to be unready again")
    assert pod("late")["spec"]["nodeName"]
    assert pod("late")["status"]["phase"] == "Pending"
    for name in ("clinging", "moody"):
        control_plane.request("DELETE", f"{path}/{name}")
    control_plane.wait_for(lambda: len(pods(control_plane, namespace)) == 2, "one pod to go")
    assert pod("clinging")["metadata"]["deletionTimestamp"]


def test_removed_nodes_take_their_pods_along(control_plane: ControlPlane, namespace: str) -> None:
    (gone,) = control_plane.add_nodes("1 prefix=gone")
    (stays,) = control_plane.add_nodes("1 prefix=stays")
    path = f"/api/v1/namespaces/{namespace}/pods"
    for number in range(3):
        control_plane.request("POST", path, bare_pod(f"gone-{number}", gone))
    control_plane.request("POST", path, bare_pod("stays", stays))
    control_plane.remove_nodes([gone])
    assert gone not in control_plane.kubectl("get", "nodes", "--output=name")
    assert [pod["metadata"]["name"] for pod in pods(control_plane, namespace)] == ["stays"]
    control_plane.remove_nodes([stays, "never-was"])


# --- who may do what -------------------------------------------------------------------------------------------------


def test_rbac_is_on_and_users_are_minted_while_it_runs(control_plane: ControlPlane, namespace: str) -> None:
    token = control_plane.token_for("alice", ["devs"])
    path = f"/api/v1/namespaces/{namespace}/pods"
    assert status_of(control_plane, path, token) == 403
    control_plane.kubectl(
        "create", "rolebinding", "devs", "--clusterrole=view", "--group=devs", f"--namespace={namespace}"
    )
    control_plane.wait_for(lambda: status_of(control_plane, path, token) == 200, "the grant to be known")
    assert status_of(control_plane, "/api/v1/nodes", token) == 403
    assert status_of(control_plane, path, "nobody's token") == 401


def test_a_users_kubeconfig_stands_alone(control_plane: ControlPlane, tmp_path: Path) -> None:
    copy = tmp_path / "kubeconfig"
    copy.write_bytes(control_plane.kubeconfig_for("bob", ["devs"]).read_bytes())
    kubectl = [str(control_plane.binaries.path("kubectl")), f"--kubeconfig={copy}"]
    done = subprocess.run([*kubectl, "auth", "whoami", "--output=yaml"], check=True, capture_output=True, text=True)
    user = yaml.safe_load(done.stdout)["status"]["userInfo"]
    assert (user["username"], user["groups"]) == ("bob", ["devs", "system:authenticated"])


def test_a_revoked_token_is_refused(control_plane: ControlPlane) -> None:
    token = control_plane.token_for("carol", ["system:masters"])
    assert status_of(control_plane, "/api/v1/nodes", token) == 200
    control_plane.revoke(token)
    control_plane.wait_for(lambda: status_of(control_plane, "/api/v1/nodes", token) == 401, "the refusal", timeout=20)


def test_service_accounts_have_tokens(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.kubectl("create", "serviceaccount", "robot", f"--namespace={namespace}")
    token = control_plane.kubectl("create", "token", "robot", f"--namespace={namespace}").strip()
    assert status_of(control_plane, "/api/v1/nodes", token) == 403
    assert status_of(control_plane, "/version", token) == 200


def test_kubectl_says_what_went_wrong(control_plane: ControlPlane, namespace: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        control_plane.kubectl("get", "pod", "nobody", f"--namespace={namespace}")
    assert 'pods "nobody" not found' in "".join(caught.value.__notes__)
    manifest = yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fed"}})
    control_plane.kubectl("create", "--filename=-", f"--namespace={namespace}", stdin=manifest)
    assert control_plane.request("GET", f"/api/v1/namespaces/{namespace}/configmaps/fed")


# --- components that come and go -------------------------------------------------------------------------------------


def test_the_api_server_comes_back_on_its_port_with_its_data(new_control_plane: StartControlPlane) -> None:
    cluster = new_control_plane(components=API_SERVER_ALONE)
    cluster.add_nodes("1")
    server, first = cluster.server, cluster.process("apiserver").pid
    cluster.restart_component("apiserver", grace_seconds=1.0)
    assert cluster.server == server
    assert cluster.process("apiserver").pid != first
    assert len(cluster.request("GET", "/api/v1/nodes")["items"]) == 1
    cluster.stop_component("apiserver")
    with pytest.raises(OSError, match="refused"):
        cluster.request("GET", "/api/v1/nodes")
    cluster.start_component("apiserver")
    assert len(cluster.request("GET", "/api/v1/nodes")["items"]) == 1


def test_a_paused_api_server_answers_nothing_until_it_is_resumed(new_control_plane: StartControlPlane) -> None:
    cluster = new_control_plane(components=API_SERVER_ALONE)
    answered = threading.Event()
    cluster.pause("apiserver")

    def ask() -> None:
        cluster.request("GET", "/api/v1/nodes")
        answered.set()

    question = threading.Thread(target=ask)
    question.start()
    assert not answered.wait(0.5)
    cluster.resume("apiserver")
    assert answered.wait(10)
    question.join()


def test_kwok_takes_its_nodes_over_again_after_a_restart(new_control_plane: StartControlPlane) -> None:
    cluster = new_control_plane(nodes=["1"])
    cluster.restart_component("kwok")
    namespace = cluster.add_namespace()
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", bare_pod("after"))
    cluster.wait_for(lambda: all(map(ready, pods(cluster, namespace))), "the pod to become ready", timeout=15)


def test_components_can_be_left_out(new_control_plane: StartControlPlane) -> None:
    cluster = new_control_plane(components=API_SERVER_ALONE, nodes=["2"])
    assert [path.stem for path in sorted(cluster.logs.iterdir())] == ["apiserver", "etcd"]
    (node, _) = cluster.request("GET", "/api/v1/nodes")["items"]
    assert "conditions" not in node["status"]
    with pytest.raises(RuntimeError, match="cannot mint a token: the component 'tokens' is not running"):
        cluster.token_for("alice")
    with pytest.raises(ValueError, match="no component 'scheduler': expected one of etcd, apiserver"):
        cluster.process("scheduler")


def test_extra_flags_overrule_ours(new_control_plane: StartControlPlane) -> None:
    cluster = new_control_plane(
        components=API_SERVER_ALONE,
        extra_args={"apiserver": ["--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"]},
    )
    cluster.add_nodes("1 prefix=n")
    assert not cluster.request("GET", "/api/v1/nodes/n-0")["spec"].get("taints")


def test_controllers_are_not_held_back_by_their_own_limits(
    control_plane: ControlPlane, namespace: str, kwok_nodes: Callable[[str], list[str]]
) -> None:
    for component in ("controller-manager", "scheduler"):
        assert {"--kube-api-qps=5000", "--kube-api-burst=10000"} <= set(control_plane.process(component).command)
    kwok_nodes("3")
    control_plane.kubectl("create", "deployment", "web", "--image=web", "--replicas=100", f"--namespace={namespace}")
    control_plane.wait_for(lambda: sum(map(ready, pods(control_plane, namespace))) == 100, "100 pods to be ready")


def test_an_unknown_component_is_named() -> None:
    with pytest.raises(
        ValueError, match="'kubelet' is no component of the control plane: expected one of etcd, tokens"
    ):
        ControlPlane.start(components={"kubelet": False})
    with pytest.raises(ValueError, match="without 'etcd' cannot start"):
        ControlPlane.start(components={"etcd": False})


# --- what is left behind ---------------------------------------------------------------------------------------------


def identities(cluster: ControlPlane) -> dict[int, str]:
    found: dict[int, str] = {}
    for path in cluster.logs.iterdir():
        pid = cluster.process(path.stem).pid
        assert pid is not None
        found[pid] = started_at(pid) or ""
    return found


def assert_gone(processes: dict[int, str]) -> None:
    assert len(processes) == 6
    for pid, started in processes.items():
        assert wait_until_gone(pid, started, 5.0)


def test_after_a_good_end_nothing_is_left(control_plane: ControlPlane) -> None:
    with ControlPlane.start(binaries=control_plane.binaries) as cluster:
        processes = identities(cluster)
        etcd_directory = cluster._etcd_directory
        assert (etcd_directory / "data").is_dir()
    assert_gone(processes)
    assert not cluster.directory.exists()
    assert not etcd_directory.exists()


def test_after_an_exception_the_logs_are_left_and_said_where(
    control_plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = ControlPlane.start(binaries=control_plane.binaries)
    processes = identities(cluster)
    with pytest.raises(ZeroDivisionError), cluster:
        _ = 1 / 0
    assert_gone(processes)
    assert f"logs of the control plane: {cluster.logs}" in capsys.readouterr().err
    assert (cluster.logs / "apiserver.log").stat().st_size > 0
    # Nothing that a stranger could use, and nothing big.
    assert [path.name for path in cluster.directory.iterdir()] == ["logs"]
    assert not cluster._etcd_directory.exists()
    for path in (*cluster.logs.iterdir(), cluster.logs, cluster.directory):
        path.rmdir() if path.is_dir() else path.unlink()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_after_the_parents_end_nothing_runs(control_plane: ControlPlane, number: signal.Signals) -> None:
    script = (
        "import time; from tools.controlplane.cluster import ControlPlane\n"
        "with ControlPlane.start() as cluster:\n"
        "    print(*(process.pid for process in cluster._processes.values()), flush=True)\n"
        "    print(cluster.directory, flush=True)\n"
        "    time.sleep(1000)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        assert parent.stdout is not None
        processes = {int(pid): started_at(int(pid)) or "" for pid in parent.stdout.readline().split()}
        directory = Path(parent.stdout.readline().strip())
        parent.send_signal(number)
        parent.wait()
    assert_gone(processes)
    # A parent that was killed outright could not tidy up: the next start does.
    if number is signal.SIGKILL:
        remove_leftovers()
    assert not directory.exists()


def test_a_component_that_cannot_start_is_reported_with_its_log(control_plane: ControlPlane) -> None:
    with pytest.raises(
        ComponentFailedError, match=r"(?s)apiserver ended with code 1.*unknown flag: --no-such-flag"
    ) as caught:
        ControlPlane.start(binaries=control_plane.binaries, extra_args={"apiserver": ["--no-such-flag"]})
    logs = Path(str(caught.value).split("the end of ")[1].split("/apiserver.log")[0])
    assert logs.is_dir()
    for path in (*logs.iterdir(), logs, logs.parent):
        path.rmdir() if path.is_dir() else path.unlink()


def test_a_port_that_another_program_takes_meanwhile_is_replaced(
    control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as stranger:

        class TakenPorts(ReservedPorts):
            def __init__(self, count: int) -> None:
                super().__init__(count)
                if stranger.getsockname()[1] == 0:
                    stranger.bind(("127.0.0.1", self.numbers[3]))
                    stranger.listen()

        monkeypatch.setattr(cluster_module, "ReservedPorts", TakenPorts)
        with ControlPlane.start(binaries=control_plane.binaries, components=API_SERVER_ALONE) as cluster:
            assert stranger.getsockname()[1] not in cluster._ports.numbers  # type: ignore[union-attr]


def test_ports_are_reserved_against_other_clusters() -> None:
    first = ReservedPorts(3)
    try:
        for port in first.numbers:
            with (
                socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as reservation,
                pytest.raises(OSError, match="in use"),
            ):
                reservation.bind(("127.0.0.1", port))
    finally:
        first.release()


def test_what_does_not_come_true_is_a_timeout_with_the_place_of_the_logs(control_plane: ControlPlane) -> None:
    with pytest.raises(TimeoutError, match=r"waited 0\.1 s in vain for the moon; logs: "):
        control_plane.wait_for(lambda: False, "the moon", timeout=0.1)


def test_a_refusal_of_the_server_has_its_words(control_plane: ControlPlane) -> None:
    with pytest.raises(ApiError, match=r'GET /api/v1/nodes/nobody: 404 nodes "nobody" not found') as caught:
        control_plane.request("GET", "/api/v1/nodes/nobody")
    assert caught.value.status == 404
