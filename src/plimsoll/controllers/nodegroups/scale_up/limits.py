"""Which groups may have more nodes, how many each gets whatever pods need, and how many it could then still add for pods.

Asked by whoever adds nodes and by whoever only wants to know what could still come: both must see the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from plimsoll.controllers.nodegroups.group_state import GroupSeen, Seen
from plimsoll.controllers.nodegroups.node_template import (
    Sizes,
    lasting_taints,
    own_labels,
    setback_of,
    usable_offerings,
)
from plimsoll.controllers.nodegroups.other_installations import left_to_another
from plimsoll.controllers.nodegroups.scale_down.unready import to_replace
from plimsoll.controllers.nodegroups.scale_up.question import coming_nodes
from plimsoll.controllers.nodegroups.spec import floor_of
from plimsoll.kube.types.core import Pod
from plimsoll.runtime.decision import Blocker
from plimsoll.scheduling.model import ComingNode


class Outlook(Struct, frozen=True):
    able: tuple[GroupSeen, ...]  # that may have more nodes
    blockers: tuple[Blocker, ...]  # what keeps each of the others from it
    lacking: Mapping[str, int]  # by group that is able: nodes that it gets whatever pods need

    def room(self, one: GroupSeen) -> int:
        """How many nodes a group that is able could still add for pods."""
        return one.group.spec.max_nodes - one.current - self.lacking[one.key]


def outlook(groups: Sequence[GroupSeen], seen: Seen) -> Outlook:
    blockers = {one.key: _cannot_grow(one, seen) for one in groups}
    able = tuple(one for one in groups if blockers[one.key] is None)
    kept = tuple(blocker for blocker in blockers.values() if blocker is not None)
    return Outlook(able, kept, {one.key: _below_floor(one, seen) for one in able})


def expected_nodes(
    groups: Sequence[GroupSeen], found: Outlook, seen: Seen, sizes: Sizes, daemons: Sequence[Pod]
) -> list[ComingNode]:
    """Nodes that come whether or not pods need them, ordered or not: pods that wait take those first."""
    return [*coming_nodes(groups, seen, sizes, daemons), *_nodes_of_the_floor(found, seen, sizes, daemons)]


def _below_floor(one: GroupSeen, seen: Seen) -> int:
    """A node that is given up is replaced before it goes, if there is room."""
    lacking = max(0, floor_of(one.group) - (one.current - to_replace(one, seen)))
    return min(lacking, max(0, one.group.spec.max_nodes - one.current))


def _cannot_grow(one: GroupSeen, seen: Seen) -> Blocker | None:
    spec = one.group.spec
    if (elsewhere := left_to_another(one, seen)) is not None:
        return elsewhere
    setback = setback_of(one.setbacks, seen.now)
    if setback is not None:
        message = f"group {one.key} rests after {setback.failures} failures: {setback.message}"
        return Blocker(setback.reason, message, until=setback.until)
    sighting = seen.sighting(spec.provider)
    if sighting is None:
        trouble = seen.sightings.trouble(spec.provider)
        message = f"group {one.key}: nothing recent is known of {spec.provider}: {trouble}"
        return Blocker("ProviderUnknown", message)
    if not usable_offerings(one.group, one.setbacks, sighting, seen.now):
        wanted = ", ".join(spec.offering_ids)
        message = f"group {one.key}: none of {wanted} is to be had in {spec.datacenter_id or 'any datacenter'} now"
        until = [setback.until for setback in one.setbacks if setback.until and setback.until > seen.now]
        return Blocker("NoOffering", message, until=min(until, default=None))
    return None


def _nodes_of_the_floor(found: Outlook, seen: Seen, sizes: Sizes, daemons: Sequence[Pod]) -> list[ComingNode]:
    nodes = []
    for one in found.able:
        sighting = seen.sighting(one.group.spec.provider)
        if sighting is None:
            continue
        usual = usable_offerings(one.group, one.setbacks, sighting, seen.now)[:1]
        for number, offering in enumerate(usual * found.lacking[one.key]):
            name = f"{one.key}#{number}"
            labels = own_labels(one.group, offering, name)
            size = sizes.allocatable(one.group.spec.datacenter_id, offering)
            nodes.append(ComingNode(name, labels, size, lasting_taints(one.group), tuple(daemons)))
    return nodes
