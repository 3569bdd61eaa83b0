"""What stands in the way of removing a node: drives and ports that containers hold there, or are about to."""

from __future__ import annotations

from plimsoll.controllers.allocation.container_nodes import BY_AFFINITY, WEKA_CONTAINERS
from plimsoll.controllers.allocation.usage import holdings_on
from plimsoll.kube.cache.store import View


def holds_allocations(node_name: str, view: View) -> tuple[str, ...]:
    """The containers (namespace/name) with an allocation or a proposal on the node; none where the kind is not seen at all.

    A container that is leaving holds what it has until it is gone.
    """
    if WEKA_CONTAINERS not in view:
        return ()
    found = view[WEKA_CONTAINERS].by(BY_AFFINITY, node_name)
    return tuple(sorted(container.title for container in found if any(holdings_on(node_name, container))))
