"""S6: a node is removed only if it is tainted, a live list of its pods after that shows nobody who has to leave first, its volumes
are detached, and no storage container has anything there."""

from __future__ import annotations

from typing import Any

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json, at, name_of, uid_of
from plimsoll.embedded_cluster.api.storage import Change
from plimsoll.simulate.custom_kinds import CONTAINERS
from plimsoll.simulate.invariants.machines import machines
from plimsoll.simulate.invariants.observed import LEAVING, must_leave_first, title
from plimsoll.simulate.invariants.request import Call
from plimsoll.simulate.invariants.rule import Rule


class Removals(Rule):
    sees = (kinds.NODES.storage_key,)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._tainted: dict[str, int] = {}  # the revision at which a node got the taint, by UID
        self._listed: dict[tuple[str, str], int] = {}  # the revision of a process's last live list of a node's pods

    def changed(self, change: Change, call: Call | None) -> None:  # noqa: ARG002
        node = change.object
        if change.type == "DELETED" or not _tainted(node):
            self._tainted.pop(uid_of(node), None)
        else:
            self._tainted.setdefault(uid_of(node), change.revision)

    def answered(self, call: Call, status: int) -> None:
        if call.method != "GET" or call.plural != "pods" or call.name or status != 200 or call.params.get("watch"):
            return
        field, _, node = call.params.get("fieldSelector", "").partition("=")
        if field == "spec.nodeName" and not call.params.get("resourceVersion"):
            self._listed[call.who, node] = self.sight.storage.revision

    def asked(self, call: Call) -> None:
        if call.method == "DELETE" and call.plural == "nodes":
            node = self.sight.storage.node(call.name)
            if node is not None:
                self._judge(node, call.who, str(call))

    def given_back(self, who: str, machine_id: str) -> None:
        for machine in machines(self.sight):
            if machine.key == machine_id and machine.node is not None:
                self._judge(machine.node, who, f"{who} gives back machine {machine_id}")

    def _judge(self, node: Json, who: str, what: str) -> None:
        name = name_of(node)
        since = self._tainted.get(uid_of(node))
        if since is None:
            self.broken("S6", f"node {name} goes without the taint {LEAVING}: {what}")
        elif self._listed.get((who, name), -1) < since:
            self.broken("S6", f"node {name} goes, and its pods were not listed since it was tainted: {what}")
        for pod in self.sight.storage.pods_on(name):
            if must_leave_first(pod):
                self.broken("S6", f"node {name} goes with pod {title(pod)} on it: {what}")
        if at(node, "status", "volumesAttached", default=[]):
            self.broken("S6", f"node {name} goes with volumes attached: {what}")
        if "allocation" in self.sight.config.controllers.enabled:
            for container in self.sight.cluster.all(CONTAINERS):
                if _has_something(container, name):
                    self.broken("S6", f"node {name} goes with what WekaContainer {title(container)} holds: {what}")


def _tainted(node: Json) -> bool:
    return any(taint["key"] == LEAVING for taint in at(node, "spec", "taints", default=[]))


def _has_something(container: Json, node: str) -> bool:
    held = at(container, "status", "allocations", default={}) or {}
    where = at(container, "spec", "nodeAffinity", default="") or at(container, "status", "nodeAffinity", default="")
    if held and where == node:
        return True
    conditions = at(container, "status", "conditions", default=[])
    return any(
        one["type"] == "AllocationProposed" and f'"node":"{node}"' in str(one.get("message", "")) for one in conditions
    )
