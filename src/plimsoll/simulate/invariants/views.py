"""S11: the view of a process never goes back in time, and it lists from a quorum before any destructive request. S12: no destructive
request on data that is unknown, forbidden, empty or partial."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import condition_true
from plimsoll.simulate.invariants.request import OperatorRequest
from plimsoll.simulate.invariants.rule import Invariant

# Every eviction and every node removal depends on these resources.
_NEEDED = ("pods", "nodes", "poddisruptionbudgets", "deployments", "replicasets", "statefulsets")
_REFUSED = (401, 403, 404)
# A broken watch may resume within this time without losing events.
_RECONNECTING = timedelta(seconds=90)


class FreshnessInvariants(Invariant):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._listed: set[tuple[str, str]] = set()  # process and plural
        self._reached: dict[tuple[str, str], int] = {}  # process and path: the revision from which it watched last
        self._unreadable: dict[tuple[str, str], datetime] = {}  # since when
        self._refused: set[tuple[str, str]] = set()

    def reply_received(self, who: str, method: str, path: str, params: Mapping[str, str], status: int) -> None:
        plural = path.rsplit("/", 1)[-1]
        if method != "GET" or plural not in _NEEDED:
            return
        whole = not params.get("fieldSelector") and not params.get("labelSelector")
        if not whole:
            return
        watching, version = bool(params.get("watch")), params.get("resourceVersion", "")
        if status != 200:
            self._unreadable.setdefault((who, plural), self.now)
            if status in _REFUSED:
                self._refused.add((who, plural))
            return
        self._unreadable.pop((who, plural), None)
        self._refused.discard((who, plural))
        if not version and (not watching or params.get("sendInitialEvents") == "true"):
            self._listed.add((who, plural))
        if watching and version.isdecimal():
            if int(version) < self._reached.get((who, path), 0):
                self.violated(
                    "S11", f"{who} watches {plural} from {version}, but had reached {self._reached[who, path]}"
                )
            self._reached[who, path] = int(version)

    def request_received(self, call: OperatorRequest) -> None:
        if call.evicts or (call.method == "DELETE" and call.plural in ("pods", "nodes")):
            self._judge(call.who, str(call))

    def machine_deleted(self, who: str, machine_id: str) -> None:
        self._judge(who, f"{who} deletes machine {machine_id}")

    def _judge(self, who: str, what: str) -> None:
        for plural in _NEEDED:
            if (who, plural) not in self._listed:
                self.violated("S11", f"no quorum list of {plural} before: {what}")
            since = self._unreadable.get((who, plural))
            if (who, plural) in self._refused or (since is not None and self.now - since > _RECONNECTING):
                self.violated("S12", f"{plural} have been unreadable since {since:%H:%M:%S}: {what}")
        nodes = self.observed.cluster.all(kinds.NODES)
        if not any(condition_true(node, "Ready") for node in nodes):
            self.violated("S12", f"none of {len(nodes)} nodes is Ready: {what}")
