"""What several tests ask of a control plane, and what they put into it."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from typing import Any

from tools.controlplane.cluster import ControlPlane


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
