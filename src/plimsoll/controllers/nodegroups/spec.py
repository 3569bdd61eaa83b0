"""The spec of a NodeGroup with durations parsed and defaults applied; newer fields take precedence over older ones."""

from __future__ import annotations

import re
from datetime import timedelta

from plimsoll.controllers.nodegroups.types import NodeGroup
from plimsoll.kube.types.durations import parse_duration

_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")  # both become labels of nodes
DEFAULT_SCALE_DOWN_COOLDOWN = timedelta(minutes=10)
DEFAULT_UNDERUTILIZATION = timedelta(minutes=10)


def spec_problem(group: NodeGroup) -> str | None:
    """What is invalid in the spec. The API server refuses such a group if our CustomResourceDefinition is installed."""
    spec = group.spec
    if spec.min_nodes > spec.max_nodes:
        return f"minNodes is {spec.min_nodes}, above maxNodes {spec.max_nodes}; lower one or raise the other"
    if not spec.offering_ids:
        return "offeringIDs is empty; name at least one offering"
    for field, text in (("datacenterID", spec.datacenter_id), *(("offeringIDs", one) for one in spec.offering_ids)):
        if not _LABEL_VALUE.fullmatch(text):
            return (
                f'{field} has "{text}", which cannot be the value of a label: expected at most 63 letters, digits, -, _ and ., '
                "with a letter or digit at both ends"
            )
    for field, text in (
        ("scaleUpCooldown", spec.scale_up_cooldown),
        ("scaleDownCooldown", spec.scale_down_cooldown),
        ("scaleDownPolicy.underutilizationDuration", spec.scale_down_policy.underutilization_duration),
    ):
        try:
            _duration(text)
        except ValueError as error:
            return f"{field}: {error}"
    return None


def minimum_size(group: NodeGroup) -> int:
    """How many nodes the group has even if no pod needs them."""
    spec = group.spec
    return min(max(spec.min_nodes, spec.desired_nodes or 0), spec.max_nodes)


def scale_up_cooldown(group: NodeGroup) -> timedelta:
    return _duration(group.spec.scale_up_cooldown) or timedelta(0)


def scale_down_cooldown(group: NodeGroup) -> timedelta:
    spec = group.spec
    seconds = spec.scale_down_policy.cooldown_seconds
    return _duration(spec.scale_down_cooldown) or (
        timedelta(seconds=seconds) if seconds else DEFAULT_SCALE_DOWN_COOLDOWN
    )


def underutilization_duration(group: NodeGroup) -> timedelta:
    policy = group.spec.scale_down_policy
    if policy.underutilization_duration:
        return parse_duration(policy.underutilization_duration)
    seconds = policy.stabilization_window_seconds
    return DEFAULT_UNDERUTILIZATION if seconds is None else timedelta(seconds=seconds)


def _duration(text: str) -> timedelta | None:
    return parse_duration(text) if text else None
