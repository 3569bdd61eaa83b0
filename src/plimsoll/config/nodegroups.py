"""How groups of nodes grow and shrink: what holds for all of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from msgspec import Meta

from plimsoll.config.section import Section, about, span


def _time(text: str) -> Meta:
    return span(text, at_least="1s")


def _limit(text: str) -> Meta:
    return Meta(ge=0, description=text)


class NodeGroups(Section, frozen=True):
    """The controller that adds nodes for pods that wait and removes nodes that nobody needs. It runs only where
    `controllers.enabled` names it."""

    expander: Annotated[
        Literal["least-waste", "price", "priority", "most-pods", "random"],
        about(
            "Which group grows where several would help: `least-waste` buys the least capacity, `price` the cheapest, `most-pods` "
            "the fewest nodes; `priority` follows the groups' `priority`, `random` chooses by chance."
        ),
    ] = "least-waste"
    balance_similar_groups: Annotated[
        bool,
        about(
            "Share new nodes out over groups that differ in nothing but their place, so that they become equally large."
        ),
    ] = True
    unschedulable_pod_grace: Annotated[
        timedelta,
        span(
            "How long a pod must have waited before a node is added for it. A little of it lets the pods of one rollout be packed "
            "together.",
            at_least="0s",
        ),
    ] = timedelta(seconds=2)
    utilization_source: Annotated[
        Literal["requests", "metrics"],
        about(
            "What makes a node little used: what its pods request, or what metrics.k8s.io measures. With `metrics`, nodes of which "
            "nothing recent is known stay."
        ),
    ] = "requests"
    poll_interval: Annotated[timedelta, _time("How often providers are asked which machines there are.")] = timedelta(
        seconds=10
    )
    provisioning_timeout: Annotated[
        timedelta, _time("A machine that does not run so long after it was ordered has failed.")
    ] = timedelta(minutes=10)
    joining_timeout: Annotated[
        timedelta, _time("A machine whose node is not ready so long after it runs has failed.")
    ] = timedelta(minutes=15)
    backoff: Annotated[
        timedelta,
        _time(
            "How long a group (or an offering that is sold out) is left alone after a failure; doubled each time, up to "
            "`maxBackoff`."
        ),
    ] = timedelta(minutes=5)
    max_backoff: Annotated[timedelta, _time("The longest such pause.")] = timedelta(minutes=30)
    drain_timeout: Annotated[timedelta, _time("A node that is not empty after so long is left to its pods again.")] = (
        timedelta(minutes=10)
    )
    unready_timeout: Annotated[timedelta, _time("A node that is not ready for so long may be removed.")] = timedelta(
        minutes=20
    )
    max_parallel_drains: Annotated[
        int, _limit("How many nodes with pods on them are drained at a time; 0 drains none.")
    ] = 1
    max_empty_removals: Annotated[int, _limit("How many empty nodes are removed in one go; 0 removes none.")] = 10
