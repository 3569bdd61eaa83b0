"""Settings of the node group controller that apply to all groups."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from msgspec import Meta

from plimsoll.config.section import Section, describe, span


def _time(text: str) -> Meta:
    return span(text, at_least="1s")


def _limit(text: str) -> Meta:
    return Meta(ge=0, description=text)


class NodeGroups(Section, frozen=True):
    """The controller that adds nodes for pending pods and removes unneeded nodes. It runs only if `controllers.enabled` names
    it."""

    expander: Annotated[
        Literal["least-waste", "price", "priority", "most-pods", "random"],
        describe(
            "Which group to scale up if several would help: `least-waste` adds the least capacity, `price` the cheapest, `most-pods` "
            "the fewest nodes; `priority` follows the groups' `priority`, `random` chooses at random."
        ),
    ] = "least-waste"
    balance_similar_groups: Annotated[
        bool,
        describe(
            "Distribute new nodes over groups that differ only in zone or region, so that they become equally large."
        ),
    ] = True
    unschedulable_pod_grace: Annotated[
        timedelta,
        span(
            "How long a pod must be unschedulable before a node is added for it. A short delay lets the pods of one rollout be packed "
            "together.",
            at_least="0s",
        ),
    ] = timedelta(seconds=2)
    utilization_source: Annotated[
        Literal["requests", "metrics"],
        describe(
            "How the utilization of a node is measured: by the requests of its pods, or by metrics.k8s.io. With `metrics`, nodes "
            "without recent measurements are kept."
        ),
    ] = "requests"
    poll_interval: Annotated[timedelta, _time("How often the machines of providers are listed.")] = timedelta(
        seconds=10
    )
    provisioning_timeout: Annotated[
        timedelta, _time("A machine that is not running this long after it was ordered has failed.")
    ] = timedelta(minutes=10)
    joining_timeout: Annotated[
        timedelta, _time("A machine whose node is not ready this long after it started has failed.")
    ] = timedelta(minutes=15)
    startup_taints: Annotated[
        tuple[str, ...],
        describe(
            "Keys of taints that nodes have until an agent removes them, in addition to the well-known ones and to a group's "
            "`startupTaints`."
        ),
    ] = ()
    backoff: Annotated[
        timedelta,
        _time(
            "Delay before a group (or a sold-out offering) is tried again after a failure; doubled each time, up to `maxBackoff`."
        ),
    ] = timedelta(minutes=5)
    max_backoff: Annotated[timedelta, _time("Maximum back-off delay.")] = timedelta(minutes=30)
    drain_timeout: Annotated[timedelta, _time("A drain that does not finish in this time is cancelled.")] = timedelta(
        minutes=10
    )
    unready_timeout: Annotated[timedelta, _time("A node that is not ready for this long may be removed.")] = timedelta(
        minutes=20
    )
    single_replicas: Annotated[
        Literal["never", "allow"],
        describe(
            "Whether a node may be drained although a pod on it is the only replica of its workload: `never` keeps the node, `allow` "
            "evicts the pod, which is unavailable until it runs elsewhere. The pod's annotation `plimsoll.dev/single-replica` and the "
            "group's `scaleDownPolicy.singleReplicas` take precedence."
        ),
    ] = "never"
    max_parallel_drains: Annotated[int, _limit("How many nodes with pods are drained at a time; 0: none.")] = 1
    max_empty_removals: Annotated[int, _limit("How many empty nodes are removed at once; 0: none.")] = 10
