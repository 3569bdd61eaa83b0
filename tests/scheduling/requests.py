"""How much of each resource a pod holds and a node has, as kube-scheduler counts it.

CPU is counted in thousandths, everything else in whole units; both sides are rounded up.
"""

from __future__ import annotations

from collections.abc import Mapping

from plimsoll.kube.types.core import Node, Pod

_POD_LEVEL = ("cpu", "memory")  # and huge pages; other resources are asked for by containers only


def requests_of(pod: Pod) -> dict[str, int]:
    """The most that the pod needs at any time of its life."""
    while_running: dict[str, int] = {}
    for container in pod.spec.containers:
        _add(while_running, container.resources.requests)
    sidecars_so_far: dict[str, int] = {}
    while_starting: dict[str, int] = {}
    for container in pod.spec.init_containers:
        # Init containers run one after the other, beside the sidecars that were started before them.
        if container.restart_policy == "Always":
            _add(while_running, container.resources.requests)
            _add(sidecars_so_far, container.resources.requests)
            _raise_to(while_starting, sidecars_so_far)
        else:
            this_step = dict(sidecars_so_far)
            _add(this_step, container.resources.requests)
            _raise_to(while_starting, this_step)
    _raise_to(while_running, while_starting)
    if pod.spec.resources is not None:
        for name, amount in pod.spec.resources.requests.items():
            if name in _POD_LEVEL or name.startswith("hugepages-"):
                while_running[name] = amount.milli
    _add(while_running, pod.spec.overhead)
    return {name: _counted(name, milli) for name, milli in while_running.items()}


def node_capacity(node: Node) -> dict[str, int]:
    return {name: _counted(name, amount.milli) for name, amount in node.status.allocatable.items()}


def _counted(name: str, milli: int) -> int:
    return milli if name == "cpu" else -(-milli // 1000)


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, milli in more.items():
        total[name] = total.get(name, 0) + int(milli)


def _raise_to(total: dict[str, int], floor: Mapping[str, int]) -> None:
    for name, milli in floor.items():
        total[name] = max(total.get(name, 0), milli)
