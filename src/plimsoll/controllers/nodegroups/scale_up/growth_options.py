"""What node groups could still bring, for those who must know that a pod would find a place before they send it away."""

from __future__ import annotations

from collections.abc import Sequence

from plimsoll.controllers.nodegroups.group_state import GroupSeen, Seen
from plimsoll.controllers.nodegroups.node_template import Sizes
from plimsoll.controllers.nodegroups.scale_up.limits import expected_nodes, outlook
from plimsoll.controllers.nodegroups.scale_up.question import templates_of
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.resources import NODES
from plimsoll.scheduling.growth_options import Prospects


def prospects(groups: Sequence[GroupSeen], seen: Seen, daemons: Sequence[Pod] = ()) -> Prospects:
    """As `grow` would see it if pods waited for long enough: a cooldown or a stabilization window only makes it later."""
    sizes, found = Sizes(seen.view[NODES]), outlook(groups, seen)
    unable = [blocker.message for blocker in found.blockers]
    room: dict[str, int] = {}
    for one in found.able:
        if not one.group.spec.scale_up_policy.enabled:
            unable.append(f"group {one.key} is not scaled up: scaleUpPolicy.enabled is false")
            continue
        room[one.key] = found.room(one)
        if room[one.key] <= 0:
            unable.append(f"group {one.key} has all of its {one.group.spec.max_nodes} nodes")
    return Prospects(
        templates=tuple(templates_of(found.able, room, seen, sizes, daemons)),
        coming=tuple(expected_nodes(groups, found, seen, sizes, daemons)),
        unable=tuple(unable),
    )
