"""S6: a node is removed only after these steps: drain taint, then a live list of its pods without any that block removal, volumes
detached, no allocation of a storage container."""

from __future__ import annotations

from typing import Any

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json, at, name_of, uid_of
from plimsoll.embedded_cluster.api.storage import ObjectChange
from plimsoll.simulate.custom_kinds import CONTAINERS
from plimsoll.simulate.invariants.machines import cloud_machines
from plimsoll.simulate.invariants.observed import DRAIN_TAINT, blocks_node_removal, display_name
from plimsoll.simulate.invariants.request import OperatorRequest
from plimsoll.simulate.invariants.rule import Invariant


class NodeRemovalInvariant(Invariant):
    watched_kinds = (kinds.NODES.storage_key,)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._tainted: dict[str, int] = {}  # the revision at which a node got the taint, by UID
        self._listed: dict[tuple[str, str], int] = {}  # the revision of a process's last live list of a node's pods

    def changed(self, change: ObjectChange, call: OperatorRequest | None) -> None:  # noqa: ARG002
        node = change.object
        if change.type == "DELETED" or not _tainted(node):
            self._tainted.pop(uid_of(node), None)
        else:
            self._tainted.setdefault(uid_of(node), change.revision)

    def response_sent(self, call: OperatorRequest, status: int) -> None:
        if call.method != "GET" or call.plural != "pods" or call.name or status != 200 or call.params.get("watch"):
            return
        field, _, node = call.params.get("fieldSelector", "").partition("=")
        if field == "spec.nodeName" and not call.params.get("resourceVersion"):
            self._listed[call.who, node] = self.observed.storage.revision

    def request_received(self, call: OperatorRequest) -> None:
        if call.method == "DELETE" and call.plural == "nodes":
            node = self.observed.storage.node(call.name)
            if node is not None:
                self._judge(node, call.who, str(call))

    def machine_deleted(self, who: str, machine_id: str) -> None:
        for machine in cloud_machines(self.observed):
            if machine.key == machine_id and machine.node is not None:
                self._judge(machine.node, who, f"{who} deletes machine {machine_id}")

    def _judge(self, node: Json, who: str, what: str) -> None:
        name = name_of(node)
        since = self._tainted.get(uid_of(node))
        if since is None:
            self.violated("S6", f"node {name} is removed without the taint {DRAIN_TAINT}: {what}")
        elif self._listed.get((who, name), -1) < since:
            self.violated("S6", f"node {name} is removed, but its pods were not listed after the taint: {what}")
        for pod in self.observed.storage.pods_on(name):
            if blocks_node_removal(pod):
                self.violated("S6", f"node {name} is removed while pod {display_name(pod)} runs on it: {what}")
        if at(node, "status", "volumesAttached", default=[]):
            self.violated("S6", f"node {name} is removed with volumes attached: {what}")
        if "allocation" in self.observed.config.controllers.enabled:
            for container in self.observed.cluster.all(CONTAINERS):
                if _has_allocation(container, name):
                    self.violated(
                        "S6",
                        f"node {name} is removed with an allocation of WekaContainer {display_name(container)}: {what}",
                    )


def _tainted(node: Json) -> bool:
    return any(taint["key"] == DRAIN_TAINT for taint in at(node, "spec", "taints", default=[]))


def _has_allocation(container: Json, node: str) -> bool:
    held = at(container, "status", "allocations", default={}) or {}
    where = at(container, "spec", "nodeAffinity", default="") or at(container, "status", "nodeAffinity", default="")
    if held and where == node:
        return True
    conditions = at(container, "status", "conditions", default=[])
    return any(
        one["type"] == "AllocationProposed" and f'"node":"{node}"' in str(one.get("message", "")) for one in conditions
    )
