"""TokenReview and SubjectAccessReview as the real API server answers them, asked with the rights that are granted for it."""

from __future__ import annotations

import aiohttp
import yaml

from plimsoll.config import Config
from plimsoll.dashboard.auth import TokenGate
from plimsoll.dashboard.service import serve_dashboard
from plimsoll.dashboard.token_reviews import TokenReviewer
from plimsoll.runtime.clock import RealClock
from plimsoll.runtime.metrics import Metrics
from plimsoll.runtime.operator import connect
from tests.cli.command import plimsoll
from tests.dashboard.scene import Scene
from tests.eventually import eventually
from tools.controlplane.cluster import ControlPlane

_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


async def test_the_cluster_says_who_may_look(control_plane: ControlPlane) -> None:
    printed = plimsoll("manifests", "--set", "dashboard.access=token", "--set", "dashboard.host=*")
    roles = [
        one
        for one in yaml.safe_load_all(printed.stdout)
        if one["kind"] == "ClusterRole" and one["metadata"]["name"].startswith("plimsoll-dashboard")
    ]
    assert len(roles) == 2
    bindings = [
        ("plimsoll-dashboard.plimsoll-system", "dashboard-operator"),
        ("plimsoll-dashboard-viewer.plimsoll-system", "dashboard-ann"),
    ]
    try:
        for role in roles:
            control_plane.request("POST", _ROLES, role)
        for role, user in bindings:
            control_plane.request("POST", _BINDINGS, _binding(role, user))
        # Known to the cluster, and allowed nothing but to ask.
        kubeconfig = control_plane.kubeconfig_for("dashboard-operator")
        async with connect(Config(), Metrics(), kubeconfig=kubeconfig, context=None) as client:
            scene = Scene()
            gate = TokenGate(TokenReviewer(client, RealClock()))
            async with (
                serve_dashboard(
                    scene.view, scene.config, scene.clock, gate, cluster="staging", identity="me", leading=lambda: False
                ) as (
                    server,
                    _,
                ),
                aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as web,
            ):
                ann, bob = control_plane.token_for("dashboard-ann"), control_plane.token_for("dashboard-bob")

                async def status(token: str) -> int:
                    async with web.get("/api/v1/snapshot", headers={"Authorization": f"Bearer {token}"}) as response:
                        return response.status

                # Rights reach the authoriser's cache a moment after they are written, and verdicts are remembered a while.
                async def lets_in() -> bool:
                    return await status(ann) == 200

                await eventually(lets_in, "ann is let in")
                assert await status(bob) == 403
                assert await status("no-token-of-this-cluster") == 401
    finally:
        for role, _ in bindings:
            for path in (_BINDINGS, _ROLES):
                control_plane.request("DELETE", f"{path}/{role}")


def _binding(role: str, user: str) -> dict[str, object]:
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": role},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "apiGroup": group, "name": user}],
    }
