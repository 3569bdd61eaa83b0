"""The command `plimsoll`, run inside this process, and what it is given to say something about."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from tests.cli.command import plimsoll

EVERYTHING = (
    "--controllers=placement,deletion-cost,nodegroups,allocation",
    "--monitoring",
    "--set=dashboard.access=token",
    "--set=dashboard.host=*",
    "--set=providers.enabled=vpsie,kwok",
    "--set=providers.vpsie.order=cluster-nodes",
)

# A workload that should be on spot and is not, so that a move is wanted and every guard is asked.
DRIFTED = """
{apiVersion: v1, kind: Node, metadata: {name: s, labels: {karpenter.sh/capacity-type: spot}},
 status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}, conditions: [{type: Ready, status: "True"}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: d},
 status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}, conditions: [{type: Ready, status: "True"}]}}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  uid: web
  annotations: {spotalis.io/enabled: "true", spotalis.io/spot-percentage: "100%"}
spec: {replicas: 1, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}
status: {replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: web-1
  uid: web-1
  labels: {app: web}
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: web, controller: true}]
spec: {replicas: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: v1
kind: Pod
metadata:
  name: web-1-a
  uid: web-1-a
  labels: {app: web}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-1, uid: web-1, controller: true}]
spec: {nodeName: d, containers: [{name: main}]}
status: {phase: Running, conditions: [{type: Ready, status: "True"}]}
"""
INVALID = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, annotations: {spotalis.io/enabled: "true", spotalis.io/spot-percentage: 70}}
spec: {replicas: 1}
"""


def printed(*arguments: str, stdin: str = "", exit_code: int = 0) -> Any:
    """The JSON that a command prints."""
    result = plimsoll(*arguments, stdin=stdin)
    assert result.exit_code == exit_code, f"plimsoll {' '.join(arguments)}: {result.output}"
    return json.loads(result.stdout)


@cache
def manifests() -> tuple[dict[str, Any], ...]:
    """Everything that an installation with all controllers, providers and monitoring consists of."""
    return tuple(printed("manifests", *EVERYTHING, "-o", "json")["items"])


@cache
def crds() -> tuple[dict[str, Any], ...]:
    return tuple(printed("manifests", "crds", "-o", "json")["items"])
