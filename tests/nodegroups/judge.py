"""S6, S7, S8, S10 and S12, judged at the moment at which something happens, not afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plimsoll.controllers.nodegroups.group_state import pods_to_move
from plimsoll.controllers.nodegroups.patches import DRAIN_TAINT
from plimsoll.controllers.nodegroups.scale_down.drain import CHECKED, CHOSEN
from plimsoll.controllers.nodegroups.scale_down.unready import unready_since
from plimsoll.controllers.nodegroups.types import NODE_GROUPS, NodeGroup, VPSieNode, find_condition
from plimsoll.kube.types.resources import NODES
from plimsoll.runtime.decision import DeleteMachine
from tests.nodegroups.api_server import Broken

if TYPE_CHECKING:
    from tests.nodegroups.world import World


def judge_groups(world: World) -> None:
    for key, made in world.cloud.by_key.items():
        if len(made) > 1:
            raise Broken(f"S10: {len(made)} machines were bought for one need ({key}): {made}")
    for group in world.api.typed(NODE_GROUPS):
        _judge_count(world, group)


def _judge_count(world: World, group: NodeGroup) -> None:
    machines = [one for one in world.cloud.machines.values() if one.group == f"{group.namespace}.{group.name}"]
    members = [one for one in world.members() if one.spec.node_group_name == group.name]
    going = {one.spec.vpsie_instance_id or one.uid for one in members if one.being_removed}
    remaining = [one for one in machines if one.id not in going and one.key not in going]
    if len(remaining) > max(group.spec.max_nodes, world.formerly_allowed.get(group.name, 0)):
        raise Broken(f"S7: {len(remaining)} machines of {group.name} stay, {group.spec.max_nodes} are allowed")
    kept = [one for one in members if not one.being_removed]
    chosen = [one for one in members if _chosen(one) and not _in_the_way(world, group, one)]
    if len(kept) < group.spec.min_nodes and chosen:
        raise Broken(f"S7: a node of {group.name} goes, {len(kept)} are left, {group.spec.min_nodes} must stay")


def _chosen(member: VPSieNode) -> bool:
    """On its way out because we wanted it so: not because it failed, nor because someone deleted it."""
    condition = find_condition(member, "Draining")
    ours = condition is not None and condition.status == "True" and condition.reason in (CHOSEN, CHECKED)
    return ours and member.being_removed and not member.terminating and member.status.deleted_at is None


def _in_the_way(world: World, group: NodeGroup, member: VPSieNode) -> bool:
    """A node that has not been ready for long and has no pods, in a group that may have no more nodes than it must."""
    node = next((one for one in world.api.typed(NODES) if one.name == member.node_name), None)
    since = unready_since(node) if node is not None else None
    long = since is not None and world.now - since >= world.settings.unready_timeout
    empty = not pods_to_move(pod for pod in world.pods() if pod.spec.node_name == member.node_name)
    return long and empty and group.spec.min_nodes == group.spec.max_nodes


def judge_machine_removal(world: World, action: DeleteMachine) -> None:
    if not action.machine_id:
        raise Broken("S8: a machine is deleted without an id")
    machine = world.cloud.machines.get(action.machine_id)
    if machine is None:
        return
    known = world.inventories.get("cloud")
    if known is None or not known.is_fresh(world.now, world.settings.max_inventory_age):
        raise Broken(f"S12: machine {machine.id} is deleted although nothing is known of the cloud")
    node = world.api.objects[NODES].get(("", machine.name))
    if node is not None:
        if not any(taint["key"] == DRAIN_TAINT for taint in node["spec"].get("taints") or ()):
            raise Broken(f"S6: node {machine.name} is removed without a taint")
        judge_node_removal(world, machine.name)


def judge_node_removal(world: World, name: str) -> None:
    if not any(machine.name == name for machine in world.cloud.machines.values()):
        return
    left = pods_to_move(pod for pod in world.pods() if pod.spec.node_name == name)
    if left:
        raise Broken(f"S6: node {name} is removed with pod {left[0].name} on it")
    node = world.api.objects[NODES].get(("", name), {})
    if node.get("status", {}).get("volumesAttached"):
        raise Broken(f"S6: node {name} is removed with a volume attached")
