"""What kube-scheduler makes of pods that arrive one after the other: the checker's filters, and its two default scores about amounts.

NodeResourcesFit likes nodes of which least is allocated, NodeResourcesBalancedAllocation those whose CPU and memory are used
alike; both give up to 100 points. Among equals it draws.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from random import Random

from plimsoll.kube.types.core import Node, Pod
from tests.scheduling.checker import Situation
from tests.scheduling.requests import node_capacity, requests_of

_ORDERS = 8  # in two or three of them even a plan that fits too tightly may bind by luck


def left_pending(before: Situation, pods: Sequence[Pod]) -> Iterator[int]:
    """How many stay pending, in one order of arrival after the other, of which the first is the given one."""
    for seed in range(_ORDERS):
        yield len(_left(before, _mixed(pods, seed) if seed else pods, seed))


def _mixed(pods: Sequence[Pod], seed: int) -> list[Pod]:
    return Random(seed).sample(pods, len(pods))


def _left(before: Situation, pods: Iterable[Pod], seed: int) -> list[Pod]:
    """Those for which no node is left when their turn comes, nor once all others have been bound."""
    now, draw = before.copy(), Random(seed)
    waiting = [pod for pod in pods if not _bound(now, pod, draw)]
    return [pod for pod in waiting if not _bound(now, pod, draw)]


def _bound(now: Situation, pod: Pod, draw: Random) -> bool:
    asked = now.ask(pod)
    scores = {node.name: _score(now, node, pod) for node in now.nodes.values() if not asked.refusals(node)}
    if not scores:
        return False
    best = max(scores.values())
    now.place(pod, draw.choice([name for name, score in scores.items() if score == best]))
    return True


def _score(now: Situation, node: Node, pod: Pod) -> int:
    there, wanted, used = node_capacity(node), requests_of(pod), now.used_on[node.name]
    free = [
        (there[name] - used[name] - wanted.get(name, 0), there[name]) for name in ("cpu", "memory") if there.get(name)
    ]
    least_allocated = sum(100 * left // of for left, of in free) // max(1, len(free))
    if len(free) < 2:
        return least_allocated
    (cpu, of_cpu), (memory, of_memory) = free
    whole = 2 * of_cpu * of_memory
    # In whole numbers as there: a share a hair below 20 % would lose a point, and with it a draw.
    balanced = 100 * (whole - abs(cpu * of_memory - memory * of_cpu)) // whole
    return least_allocated + balanced
