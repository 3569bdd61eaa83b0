"""Who may do what: users, tokens, and the words of a refusal."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.controlplane.asking import status_of
from tools.controlplane.cluster import ControlPlane


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
    """Revoked before it was used: a token that was accepted once is remembered by the API server for ten seconds."""
    revoked, kept = (control_plane.token_for("carol", ["system:masters"]) for _ in range(2))
    control_plane.revoke(revoked)
    assert status_of(control_plane, "/api/v1/nodes", revoked) == 401
    assert status_of(control_plane, "/api/v1/nodes", kept) == 200


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
