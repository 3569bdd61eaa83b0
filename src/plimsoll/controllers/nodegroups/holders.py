"""Objects of another controller that hold drives or ports on nodes. A node stays as long as such an object needs it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from plimsoll.kube.cache.store import View
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import Index, Resource


class Holders(Struct, frozen=True):
    """The kind of the objects, and the index that names the nodes that each of them needs."""

    resource: Resource[Any]
    by_node: Index

    def first_on(self, node: str, view: View) -> KubeObject | None:
        return next(iter(view[self.resource].by(self.by_node, node)), None)

    def among(self, items: Iterable[KubeObject], node: str) -> KubeObject | None:
        return next((item for item in items if node in self.by_node.values(item)), None)

    def title(self, holder: KubeObject) -> str:
        return f"{self.resource.kind} {holder.namespace}/{holder.name}"
