"""Objects of another controller that hold something on nodes, be it drives or ports: a node that one of them counts on stays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from plimsoll.kube.cache.store import View
from plimsoll.kube.types.core import KubeObject
from plimsoll.kube.types.resources import Index, Resource


class Holders(Struct, frozen=True):
    """The kind as the other controller watches it, so that it is watched once, and how it knows the nodes that an object counts on."""

    resource: Resource[Any]
    by_node: Index

    def seen_on(self, node: str, view: View) -> KubeObject | None:
        return next(iter(view[self.resource].by(self.by_node, node)), None)

    def among(self, items: Iterable[KubeObject], node: str) -> KubeObject | None:
        return next((item for item in items if node in self.by_node.values(item)), None)

    def title(self, holder: KubeObject) -> str:
        return f"{self.resource.kind} {holder.namespace}/{holder.name}"
