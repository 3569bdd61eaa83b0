"""Pods on nodes that are about to be removed: evicted while there is time, within every budget, whatever the window."""

from __future__ import annotations

from msgspec import Struct

from plimsoll.controllers.placement.rebalance.candidates import opted_out
from plimsoll.controllers.placement.replica_counts import Replica
from plimsoll.controllers.placement.target import CapacityClass
from plimsoll.controllers.placement.workload_state import Seen
from plimsoll.kube.types.resources import PODS
from plimsoll.runtime.decision import Blocker, Event, Evict, Reason, Ref


class Rescue(Struct, frozen=True):
    evictions: tuple[Evict, ...] = ()
    blockers: tuple[Blocker, ...] = ()


def rescue(seen: Seen) -> Rescue:
    leaving = [r for r in seen.replicas if r.leaving is not None and not opted_out(r.pod, seen.now)]
    if not leaving:
        return Rescue()
    evictions: list[Evict] = []
    blockers: dict[str, Blocker] = {}
    asked: list[Replica] = []
    for replica in sorted(leaving, key=lambda r: r.pod.name):
        blocker = _stands_in_the_way(replica, asked, seen)
        if blocker is not None:
            blockers.setdefault(blocker.code, blocker)
            continue
        asked.append(replica)
        evictions.append(_evict(replica, seen))
    return Rescue(tuple(evictions), tuple(blockers.values()))


def _stands_in_the_way(replica: Replica, asked: list[Replica], seen: Seen) -> Blocker | None:
    pod = replica.pod
    others = [r for r in seen.replicas if r is not replica and r not in asked and r.pod.ready]
    if not others:
        return Blocker("LastReady", f"pod {pod.name} is the only ready one")
    minimum = seen.managed.policy.share.min_on_demand
    on_demand = sum(1 for r in others if r.capacity_class is CapacityClass.ON_DEMAND)
    if pod.ready and replica.capacity_class is CapacityClass.ON_DEMAND and on_demand < minimum:
        return Blocker(
            "MinimumOnDemand", f"without pod {pod.name} {on_demand} on-demand replicas are ready, not {minimum}"
        )
    allowed = seen.allowance(pod)
    if allowed.blocker is not None:
        return allowed.blocker
    wanted = seen.workload.spec.replicas
    if allowed.pods is None and len(others) < wanted - 1:
        return Blocker(
            "OwnerDisrupted",
            f"{len(others) + pod.ready} of {wanted} replicas are ready; without a budget one goes at a time",
        )
    if allowed.pods is not None and len(asked) >= allowed.pods:
        return Blocker("NotEnoughPdb", f"budget {allowed.budget} allows {allowed.pods} disruptions now")
    return None


def _evict(replica: Replica, seen: Seen) -> Evict:
    pod = replica.pod
    message = f"node {pod.spec.node_name} is about to go ({replica.leaving}): pod {pod.name} leaves while there is time"
    event = Event(seen.ref, "NodeLeaving", message)
    return Evict(Ref.to(PODS, pod), seen.key, Reason("NodeLeaving", message), event=event)
