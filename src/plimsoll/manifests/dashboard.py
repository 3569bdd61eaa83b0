"""RBAC and Service of the dashboard, if it is reachable by more than `kubectl port-forward`."""

from __future__ import annotations

from plimsoll.config import Config
from plimsoll.dashboard.token_reviews import PATH, PERMISSIONS
from plimsoll.kube.addresses import is_loopback
from plimsoll.manifests.objects import LABELS, NAME, Manifest, new_manifest, scoped_name
from plimsoll.manifests.rbac import role_and_binding, rules_for

_DASHBOARD = f"{NAME}-dashboard"


def opens_dashboard(config: Config) -> bool:
    """Whether the dashboard listens on more than loopback."""
    return config.dashboard.enabled and not is_loopback(config.dashboard.host)


def dashboard_manifests(config: Config) -> list[Manifest]:
    if not config.dashboard.enabled or config.dashboard.access != "token":
        return []
    home = config.operator.namespace
    viewing = [{"nonResourceURLs": [PATH], "verbs": ["get"]}]
    found = [
        *role_and_binding("ClusterRole", _DASHBOARD, "", rules_for(PERMISSIONS), home),
        # Not bound: the cluster administrator decides who may view the dashboard.
        new_manifest(
            "rbac.authorization.k8s.io/v1", "ClusterRole", "", scoped_name(home, f"{_DASHBOARD}-viewer"), rules=viewing
        ),
    ]
    if opens_dashboard(config):
        ports = [{"name": "dashboard", "port": 80, "targetPort": "dashboard"}]
        found.append(new_manifest("v1", "Service", home, _DASHBOARD, spec={"selector": LABELS, "ports": ports}))
    return found
