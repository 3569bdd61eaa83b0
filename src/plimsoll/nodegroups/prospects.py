"""What node groups could still bring, for those who must know that a pod would find a place before they send it away."""

from __future__ import annotations

from collections.abc import Sequence

from plimsoll.kube.resources import NODES
from plimsoll.kube.types import Pod
from plimsoll.nodegroups.blueprint import Sizes
from plimsoll.nodegroups.growth import able_to_grow, basic_nodes
from plimsoll.nodegroups.scale_up import coming_nodes, templates_of
from plimsoll.nodegroups.seen import GroupSeen, Seen
from plimsoll.nodegroups.spec import floor_of
from plimsoll.scheduling.prospects import Prospects


def prospects(groups: Sequence[GroupSeen], seen: Seen, daemons: Sequence[Pod] = ()) -> Prospects:
    """As `grow` would see it if pods waited for long enough: a cooldown or a stabilization window only makes it later."""
    sizes = Sizes(seen.view[NODES])
    able, blockers = able_to_grow(groups, seen)
    unable = [blocker.message for blocker in blockers]
    basic = {one.key: max(0, floor_of(one.group) - one.current) for one in able}
    room: dict[str, int] = {}
    for one in able:
        if not one.group.spec.scale_up_policy.enabled:
            unable.append(f"group {one.key} is not scaled up: scaleUpPolicy.enabled is false")
            continue
        room[one.key] = one.group.spec.max_nodes - one.current - basic[one.key]
        if room[one.key] <= 0:
            unable.append(f"group {one.key} has all of its {one.group.spec.max_nodes} nodes")
    return Prospects(
        templates=tuple(templates_of(able, room, seen, sizes, daemons)),
        coming=(*coming_nodes(groups, seen, sizes, daemons), *basic_nodes(able, basic, seen, sizes, daemons)),
        unable=tuple(unable),
    )
