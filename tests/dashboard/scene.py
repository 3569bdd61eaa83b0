"""A small cluster in stores, a snapshot of it, and a page's way of putting changes together."""

from __future__ import annotations

from typing import Any

import msgspec

from plimsoll.config import Config, ControllerName
from plimsoll.config import Controllers as ControllersSection
from plimsoll.config import Dashboard as DashboardSection
from plimsoll.controllers.build import controllers, placement_settings
from plimsoll.dashboard.cluster_snapshot import DashboardSnapshot, OperatorInfo
from plimsoll.kube.cache.store import Store, View
from plimsoll.kube.types.meta import KubeObject
from plimsoll.runtime.clock import Clock, RealClock
from plimsoll.runtime.operator import watched_by
from plimsoll.runtime.outcome import Outcome
from tests import build

ALL: tuple[ControllerName, ...] = ("placement", "deletion-cost", "nodegroups", "allocation")
SPOT = {"karpenter.sh/capacity-type": "spot"}


def config_of(*names: ControllerName) -> Config:
    return Config(controllers=ControllersSection(enabled=names), dashboard=DashboardSection(port=0))


class Scene:
    """Three nodes, a Deployment `web` of three pods."""

    def __init__(self, *names: ControllerName, clock: Clock | None = None) -> None:
        self.config = config_of(*(names or ("placement", "deletion-cost")))
        self.controllers = controllers(self.config)
        self.stores: dict[Any, Store[Any]] = {kind: Store(kind) for kind in watched_by(self.controllers)}
        for store in self.stores.values():
            store.synced = True
        self.view = View(self.stores)
        self.clock = clock or RealClock()
        self.leading = False
        self.web = build.deployment(
            "web",
            replicas=3,
            annotations={
                "spotalis.io/enabled": "true",
                "spotalis.io/spot-percentage": "70%",
                "pod-deletion-cost.lablabs.io/enabled": "true",
            },
        )
        self.web_set = build.replica_set("web-1", owner=self.web)
        self.put(build.node("n1", zone="a"), build.node("n2", zone="b", labels=SPOT), build.node("n3", zone="c"))
        self.put(self.web, self.web_set)
        self.put(*(build.pod(f"web-1-{n}", owner=self.web_set, node=f"n{n}") for n in (1, 2, 3)))

    def put(self, *objects: KubeObject) -> None:
        for obj in objects:
            kind = next(one for one in self.stores if one.type is type(obj))
            self.stores[kind].put(obj)

    def remove(self, obj: KubeObject) -> None:
        kind = next(one for one in self.stores if one.type is type(obj))
        self.stores[kind].remove(obj.namespace, obj.name)

    def snapshot(self) -> DashboardSnapshot:
        names = tuple(one.name for one in self.controllers)
        shown = OperatorInfo("staging", "me", False, names, lambda: self.leading)
        return DashboardSnapshot(self.view, placement_settings(self.config).rules, self.clock, shown)

    def decide(self, snapshot: DashboardSnapshot) -> None:
        """As the loop does, without a door."""
        for controller in self.controllers:
            keys = {
                key
                for kind in controller.watches
                for obj in self.view[kind]
                for key in controller.keys(kind, obj, self.view)
            }
            for key in sorted(keys):
                snapshot.acted(controller.name, key, controller.decide(key, self.view, self.clock.now()), Outcome())


def read(data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(data)
    return found


SECTIONS = ("nodes", "workloads", "groups", "pending", "allocations")


def merged(whole: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """What the page does with a change."""
    found = {**whole, "version": change["version"], "operator": change["operator"]}
    for title in SECTIONS:
        records = {**whole[title], **change[title]}
        found[title] = {name: record for name, record in records.items() if record is not None}
    found["decisions"] = [*whole["decisions"], *change["decisions"]]
    return found


def shown(snapshot: dict[str, Any]) -> dict[str, Any]:
    """Without what only a whole snapshot or only a change has."""
    groups = {
        name: {field: value for field, value in record.items() if field not in ("history", "point")}
        for name, record in snapshot["groups"].items()
    }
    kept = {field: value for field, value in snapshot.items() if field not in ("at", "whole")}
    return {**kept, "groups": groups}
