"""The settings of the node group controller; `controllers.build` fills them from the configuration."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, TypeAlias

from msgspec import Struct

from plimsoll.controllers.nodegroups.holders import Holders
from plimsoll.controllers.nodegroups.types import SingleReplicas

Expander: TypeAlias = Literal["least-waste", "price", "priority", "most-pods", "random"]


class NodeGroupSettings(Struct, frozen=True):
    expander: Expander = "least-waste"
    balance_similar_groups: bool = True
    unschedulable_pod_grace: timedelta = timedelta(seconds=2)
    provisioning_timeout: timedelta = timedelta(minutes=10)
    joining_timeout: timedelta = timedelta(minutes=15)
    drain_timeout: timedelta = timedelta(minutes=10)
    unready_timeout: timedelta = timedelta(minutes=20)
    backoff_base: timedelta = timedelta(minutes=5)
    backoff_cap: timedelta = timedelta(minutes=30)
    backoff_reset: timedelta = timedelta(hours=3)
    startup_taints: tuple[str, ...] = ()  # keys, in addition to `usable.STARTUP_TAINTS`
    taint_wait: timedelta = timedelta(seconds=5)  # kube-scheduler may bind a pod before it has seen the taint
    single_replicas: SingleReplicas = "never"
    max_parallel_drains: int = 1
    max_empty_removals: int = 10
    unready_percentage: int = 45  # no node is removed if more are unready than this, and more than `unready_nodes`
    unready_nodes: int = 3
    max_inventory_age: timedelta = timedelta(minutes=1)
    retry_interval: timedelta = timedelta(seconds=10)
    namespace: str = "plimsoll-system"  # the operator's own; distinguishes installations
    holders: Holders | None = None  # objects of another controller that need their node
