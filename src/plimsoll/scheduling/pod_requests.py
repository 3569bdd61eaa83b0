"""Pod requests and node allocatable in the units that kube-scheduler compares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from plimsoll.kube.types.core import Container, ContainerStatus, Pod, PodSpec
from plimsoll.kube.types.meta import Resources
from plimsoll.kube.types.quantity import parse_quantity

CPU = "cpu"  # in thousandths of a core; everything else in whole units
PODS = "pods"

# Amounts beyond this are mistakes (4 PiB of memory). They are capped so that sums per node stay far inside int64; no
# node has as much, so such a pod still fits nowhere.
LARGEST_REQUEST = 2**52


def amounts(resources: Resources) -> dict[str, int]:
    """Round quantities as kube-scheduler does: CPU to milli, the rest up to whole units."""
    found = {name: int(quantity) if name == CPU else -(-quantity // 1000) for name, quantity in resources.items()}
    if found and max(found.values()) > LARGEST_REQUEST:
        return {name: min(amount, LARGEST_REQUEST) for name, amount in found.items()}
    return found


def allocatable(resources: Resources) -> dict[str, int]:
    found = amounts(resources)
    if found and max(found.values()) == LARGEST_REQUEST:
        return {name: min(amount, LARGEST_REQUEST - 1) for name, amount in found.items()}
    return found


def allocatable_column(name: str, quantities: Sequence[int]) -> list[int]:
    """Return one resource of many nodes, rounded and capped as in `allocatable`."""
    most = LARGEST_REQUEST - 1
    if name == CPU:
        return [min(quantity, most) for quantity in quantities]
    return [min(-(-quantity // 1000), most) for quantity in quantities]


def effective_requests(spec: PodSpec) -> dict[str, int]:
    """Return the maximum amount of each resource that the pod uses at any time, and one pod.

    Containers run together, so they add up. Init containers run one after the other, each beside the sidecars (init
    containers with restartPolicy Always) started before it. Pod-level requests, where set, replace CPU, memory and huge
    pages.
    """
    containers = spec.containers
    if len(containers) == 1 and not spec.init_containers and spec.resources is None and not spec.overhead:
        wanted = amounts(containers[0].resources.requests)
        wanted[PODS] = 1
        return {name: amount for name, amount in wanted.items() if amount > 0}
    total = _sum(container.resources.requests for container in containers)
    if spec.init_containers:
        total = _with_init_containers(total, spec.init_containers)
    if spec.resources is not None:
        for name, quantity in spec.resources.requests.items():
            if name in (CPU, "memory") or name.startswith("hugepages-"):
                total[name] = quantity
    for name, quantity in spec.overhead.items():
        total[name] = total.get(name, 0) + quantity
    wanted = {
        name: min(int(milli) if name == CPU else -(-milli // 1000), LARGEST_REQUEST)
        for name, milli in total.items()
        if milli > 0
    }
    wanted[PODS] = 1
    return wanted


def requests_of(pod: Pod) -> dict[str, int]:
    """Return the effective requests of a pod as kube-scheduler counts them, also during an in-place resize."""
    return effective_requests(resized_spec(pod) if pod.metadata.generation > 1 else pod.spec)


def resized_spec(pod: Pod) -> PodSpec:
    """Return the pod's spec with the requests that kube-scheduler counts while an in-place resize is under way.

    For each container and for pod-level requests that is the largest of desired (spec), allocated and actual (status)
    amounts. The kubelet may call a resize infeasible; then the desired amounts do not count.
    """
    spec, status = pod.spec, pod.status
    infeasible = any(c.type == "PodResizePending" and c.reason == "Infeasible" for c in status.conditions)
    containers = _resized(spec.containers, status.container_statuses, infeasible=infeasible)
    init_containers = _resized(spec.init_containers, status.init_container_statuses, infeasible=infeasible)
    resources = spec.resources
    if resources is not None and resources.requests and status.resources is not None:
        held = (status.resources.requests, status.allocated_resources)
        resources = replace(resources, requests=_largest(resources.requests, held, infeasible=infeasible))
    if (containers, init_containers, resources) == (spec.containers, spec.init_containers, spec.resources):
        return spec
    return replace(spec, containers=containers, init_containers=init_containers, resources=resources)


def _resized(
    containers: tuple[Container, ...], statuses: tuple[ContainerStatus, ...], *, infeasible: bool
) -> tuple[Container, ...]:
    by_name = {status.name: status for status in statuses}
    found = []
    for container in containers:
        status = by_name.get(container.name)
        if status is not None:
            actual = status.resources.requests if status.resources is not None else {}
            held = (status.allocated_resources, actual)
            requests = _largest(container.resources.requests, held, infeasible=infeasible)
            if requests != container.resources.requests:
                container = replace(container, resources=replace(container.resources, requests=requests))  # noqa: PLW2901
        found.append(container)
    return tuple(found)


def _largest(desired: Resources, held: Iterable[Mapping[str, object]], *, infeasible: bool) -> Resources:
    texts = [amounts for amounts in held if amounts]
    if not texts:
        return desired
    largest = {} if infeasible else dict(desired)
    for amounts_held in texts:
        for name, text in amounts_held.items():
            quantity = parse_quantity(str(text))
            largest[name] = max(largest.get(name, quantity), quantity)
    return largest


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, milli in part.items():
            total[name] = total.get(name, 0) + milli
    return total


def _with_init_containers(total: dict[str, int], init_containers: tuple[Container, ...]) -> dict[str, int]:
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in init_containers:
        requests = container.resources.requests
        if container.restart_policy == "Always":
            sidecars = _sum((sidecars, requests))
            running = sidecars
        else:
            running = _sum((sidecars, requests))
        for name, milli in running.items():
            peak[name] = max(peak.get(name, 0), milli)
    total = _sum((total, sidecars))
    return {name: max(total.get(name, 0), peak.get(name, 0)) for name in {**total, **peak}}


def format_amount(name: str, amount: int) -> str:
    """Format an amount as people write it: 1500m, 2Gi, 3."""
    if name == CPU:
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    if name in {"memory", "ephemeral-storage"} or name.startswith("hugepages-"):
        for suffix, unit in (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
            if amount and amount % unit == 0:
                return f"{amount // unit}{suffix}"
        if abs(amount) >= 10 * 2**20:
            return f"{amount // 2**20}Mi"
    return str(amount)
