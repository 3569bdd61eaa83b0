"""Drives and ports that a storage container holds on the node, or is about to, are not taken from under it."""

from __future__ import annotations

from typing import Any

from plimsoll.decision import Blocker
from plimsoll.kube.resources import Resource
from plimsoll.kube.types import CustomObject
from plimsoll.nodegroups.situation import Candidate, Situation

WEKA_CONTAINERS = Resource("weka.weka.io", "v1alpha1", "wekacontainers", "WekaContainer", CustomObject)


def allocations(candidate: Candidate, situation: Situation) -> Blocker | None:
    for pod in candidate.pods:
        owner = pod.metadata.controller
        if owner is not None and owner.kind == "WekaContainer":
            message = f"pod {pod.namespace}/{pod.name} runs the storage container {owner.name}"
            return Blocker("AllocationOnNode", message)
    if situation.seen.settings.sees_allocations:
        for container in situation.seen.view[WEKA_CONTAINERS]:
            if holds_on(container, candidate.name):
                message = (
                    f"WekaContainer {container.namespace}/{container.name} holds, or is about to hold, drives there"
                )
                return Blocker("AllocationOnNode", message)
    return None


def holds_on(container: CustomObject, node: str) -> bool:
    """Whether the container names the node, be it in what it wants, in what it has, or in a proposal."""
    status: Any = container.status
    if node in (container.spec.get("nodeAffinity"), status.get("nodeAffinity")):
        return True
    # A proposal and the mark on what was allocated are conditions; their texts name the node.
    messages = [str(condition.get("message", "")) for condition in status.get("conditions") or ()]
    return any(f'"node":"{node}"' in message or message.startswith(f"node {node}: ") for message in messages)
