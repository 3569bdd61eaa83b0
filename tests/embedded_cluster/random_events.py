"""What can happen to a cluster in a day: people change their minds, clouds and networks fail, and processes die."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from plimsoll.controllers.deletion_cost.spec import PREFIX
from plimsoll.controllers.placement.spec import DURATION, ENABLED, MIN_ON_DEMAND, SCHEDULE, SPOT_PERCENTAGE
from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json, at, name_of, object_labels, terminating
from plimsoll.embedded_cluster.api.kinds import ResourceKind
from plimsoll.simulate.custom_kinds import CONTAINERS, NODE_GROUPS, VPSIE_NODES
from plimsoll.simulate.fault_transport import NO_FAULTS, FaultRates
from plimsoll.simulate.world import World
from tests.embedded_cluster.scene import patch

if TYPE_CHECKING:
    from tests.embedded_cluster.histories import Day

DAY_SECONDS = 86_400.0
POOL = "grouped"
CLASS = "karpenter.sh/capacity-type"
ZONE = "topology.kubernetes.io/zone"
_DRIVES = "weka.io/weka-drives"


class Workload:
    """What its owner has asked for last."""

    def __init__(
        self,
        kind: ResourceKind,
        name: str,
        *,
        replicas: int,
        pool: str = "",
        managed: bool = True,
        minimum: int = 1,
        volumes: bool = False,
    ) -> None:
        """volumes: each of its pods has one, in the zone where it first ran."""
        self.volumes = volumes
        self.kind, self.name, self.replicas, self.pool, self.managed = kind, name, replicas, pool, managed
        self.percentage, self.minimum = 50, minimum

    def manifest(self) -> Json:
        labels = {"app": self.name}
        cpu = "1500m" if self.pool else "250m"
        pod: Json = {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}]}
        if self.pool:
            pod["nodeSelector"] = {"pool": self.pool}
        body: Json = {
            "replicas": self.replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        }
        if self.kind is kinds.STATEFULSETS:
            body |= {"serviceName": self.name, "podManagementPolicy": "Parallel"}
        if self.volumes:
            body["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
        return {
            "apiVersion": self.kind.api_version,
            "kind": self.kind.kind,
            "metadata": {"name": self.name, "namespace": "default", "annotations": self.annotations()},
            "spec": body,
        }

    def annotations(self) -> dict[str, str]:
        if not self.managed:
            return {}
        request_received = {ENABLED: "true", SPOT_PERCENTAGE: f"{self.percentage}%", MIN_ON_DEMAND: str(self.minimum)}
        return request_received | ({PREFIX + "enabled": "true"} if self.name == "web" else {})

    async def annotate(self, world: World, annotations: Mapping[str, str | None]) -> None:
        await patch(world.cluster, self.kind, self.name, {"metadata": {"annotations": dict(annotations)}})


def daemon() -> Json:
    """A pod for every node, whatever its taints: no node is ever empty, and nobody has to move it."""
    labels = {"app": "agent"}
    containers = [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "50m"}}}]
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": containers, "tolerations": [{"operator": "Exists"}]},
            },
        },
    }


def storage_nodes(world: World) -> None:
    """Two nodes have drives."""
    storage = world.cluster.api.storage
    for node in [one for one in world.cluster.all(kinds.NODES) if object_labels(one).get(CLASS) == "on-demand"][:2]:
        serials = "[" + ",".join(f'"{name_of(node)}-{number}"' for number in range(6)) + "]"
        notes = {**at(node, "metadata", "annotations", default={}), _DRIVES: serials}
        storage.put(kinds.NODES, {**node, "metadata": {**node["metadata"], "annotations": notes}})


# ── what people do ───────────────────────────────────────────────────────────────────────────────────────────────────


async def scaled(day: Day, world: World) -> None:
    workload = day.rng.choice(day.workloads)
    if workload.pool and not world.cluster.all(NODE_GROUPS):
        return  # nobody would make a node for it yet
    workload.replicas = day.rng.randint(0, 8) if workload.pool else day.rng.randint(2, 12)
    await patch(world.cluster, workload.kind, workload.name, {"spec": {"replicas": workload.replicas}})


async def followed_a_curve(day: Day, world: World) -> None:
    """As an autoscaler does it: many small steps."""
    workload = day.workloads[0]
    for _ in range(day.rng.randint(4, 8)):
        workload.replicas = max(2, min(14, workload.replicas + day.rng.choice((-2, -1, 1, 2, 3))))
        await patch(world.cluster, workload.kind, workload.name, {"spec": {"replicas": workload.replicas}})
        await world.clock.sleep(day.rng.uniform(10, 120))


async def asked_otherwise(day: Day, world: World) -> None:
    workload = day.rng.choice([one for one in day.workloads if one.managed])
    workload.percentage, workload.minimum = day.rng.choice((0, 30, 50, 70, 100)), day.rng.randint(0, 3)
    await workload.annotate(world, workload.annotations())


async def closed_its_window(day: Day, world: World) -> None:
    workload = day.rng.choice([one for one in day.workloads if one.managed])
    schedule = day.rng.choice(("0 * * * *", "*/20 * * * *", "30 3 * * *"))
    await workload.annotate(world, {SCHEDULE: schedule, DURATION: day.rng.choice(("5m", "15m"))})


async def rolled_out(day: Day, world: World) -> None:
    workload = day.rng.choice(day.workloads)
    version = {"metadata": {"annotations": {"version": str(day.rng.random())}}}
    await patch(world.cluster, workload.kind, workload.name, {"spec": {"template": version}})


async def deleted_a_pod(day: Day, world: World) -> None:
    pods = [pod for pod in world.cluster.all(kinds.PODS) if not terminating(pod)]
    if pods:
        world.cluster.api.objects.delete(kinds.PODS, "default", name_of(day.rng.choice(pods)), {})


async def changed_a_budget(day: Day, world: World) -> None:
    budgets = world.cluster.all(kinds.BUDGETS)
    if budgets:
        name = name_of(day.rng.choice(budgets))
        spec: Json = {"minAvailable": None, "maxUnavailable": day.rng.choice((0, 1, 2))}
        await patch(world.cluster, kinds.BUDGETS, name, {"spec": spec})
        await world.clock.sleep(day.rng.uniform(60, 3600))
        await patch(world.cluster, kinds.BUDGETS, name, {"spec": {"maxUnavailable": 1}})


async def cordoned(day: Day, world: World) -> None:
    node = name_of(day.rng.choice(world.cluster.all(kinds.NODES)))
    await patch(world.cluster, kinds.NODES, node, {"spec": {"unschedulable": True}})
    await world.clock.sleep(day.rng.uniform(60, 1200))
    if world.cluster.api.storage.node(node) is not None:
        await patch(world.cluster, kinds.NODES, node, {"spec": {"unschedulable": None}})


# ── what clouds do ───────────────────────────────────────────────────────────────────────────────────────────────────


def _static(world: World, *, spot: bool) -> list[Json]:
    wanted = "spot" if spot else "on-demand"
    return [one for one in world.cluster.all(kinds.NODES) if object_labels(one).get(CLASS) == wanted]


async def reclaimed(day: Day, world: World) -> None:
    """One spot node, or two at once; others come in their place a little later."""
    going = day.rng.sample(_static(world, spot=True), k=day.rng.choice((1, 1, 2)))
    for node in going:
        world.cluster.reclaim(name_of(node), notice_seconds=day.rng.choice((30, 120)))
    await world.clock.sleep(day.rng.uniform(60, 400))
    for node in going:
        await world.cluster.add_nodes(f"1 zone={object_labels(node)[ZONE]} class=spot cpu=16")


async def fell_silent(day: Day, world: World) -> None:
    """A kubelet stops answering; it comes back, or its node is removed and replaced."""
    drives = [
        name_of(node)
        for node in world.cluster.all(kinds.NODES)
        if _DRIVES in at(node, "metadata", "annotations", default={})
    ]
    nodes = [one for one in _static(world, spot=day.rng.random() < 0.5) if name_of(one) not in drives]
    node = day.rng.choice(nodes)
    world.cluster.kubelets.silence(name_of(node))
    await world.clock.sleep(day.rng.uniform(30, 900))
    if world.cluster.api.storage.node(name_of(node)) is None:
        return
    if day.rng.random() < 0.5:
        world.cluster.kubelets.revive(name_of(node))
    else:
        world.cluster.remove_node(name_of(node))
        await world.cluster.add_nodes(f"1 zone={object_labels(node)[ZONE]} class={object_labels(node)[CLASS]} cpu=16")


# ── what happens to node groups ──────────────────────────────────────────────────────────────────────────────────────


async def the_cloud_failed(day: Day, world: World) -> None:
    cloud = world.cloud
    match day.rng.choice(("unreachable", "quota", "sold out", "old lists", "lost answers")):
        case "unreachable":
            cloud.reachable = False
        case "quota":
            cloud.quota = day.rng.randint(0, 3)
        case "sold out":
            cloud.sold_out.add(day.rng.choice(("small", "large")))
        case "old lists":
            cloud.serves_stale_lists = True
        case "lost answers":
            cloud.lost_answers = day.rng.randint(1, 3)
    batch = next(one for one in day.workloads if one.pool)
    batch.replicas = day.rng.randint(0, 8)
    await patch(world.cluster, batch.kind, batch.name, {"spec": {"replicas": batch.replicas}})
    await world.clock.sleep(day.rng.uniform(60, 1800))
    cloud.reachable, cloud.quota, cloud.serves_stale_lists = True, None, False
    cloud.sold_out.clear()


async def resized_a_group(day: Day, world: World) -> None:
    least = day.rng.randint(0, 2)
    await patch(world.cluster, NODE_GROUPS, "small", {"spec": {"minNodes": least, "maxNodes": day.rng.randint(2, 4)}})


async def a_batch_came_and_went(day: Day, world: World) -> None:
    """It grows a group, and leaves its nodes half empty."""
    batch = next(one for one in day.workloads if one.pool)
    for replicas, seconds in ((day.rng.randint(4, 9), day.rng.uniform(60, 900)), (day.rng.randint(0, 3), 0.0)):
        batch.replicas = replicas
        await patch(world.cluster, batch.kind, batch.name, {"spec": {"replicas": replicas}})
        await world.clock.sleep(seconds)


async def deleted_a_machine_by_hand(day: Day, world: World) -> None:
    members = [one for one in world.cluster.all(VPSIE_NODES) if not terminating(one)]
    if members:
        world.cluster.api.objects.delete(VPSIE_NODES, "default", name_of(day.rng.choice(members)), {})


async def a_machine_vanished(day: Day, world: World) -> None:
    nodes = [one for one in world.cluster.all(kinds.NODES) if object_labels(one).get("pool") == POOL]
    if nodes:
        world.cluster.remove_node(name_of(day.rng.choice(nodes)))


# ── what happens to storage containers ───────────────────────────────────────────────────────────────────────────────


async def asked_for_drives(day: Day, world: World) -> None:
    nodes = [one for one in world.cluster.all(kinds.NODES) if _DRIVES in at(one, "metadata", "annotations", default={})]
    for _ in range(day.rng.randint(1, 3)):
        name = f"storage-{day.rng.getrandbits(24):x}"
        spec = {"nodeAffinity": name_of(day.rng.choice(nodes)), "mode": "drive", "numDrives": day.rng.randint(1, 3)}
        await world.cluster.create(CONTAINERS, {"metadata": {"name": name}, "spec": {**spec, "numCores": 1}}, "default")


async def let_drives_go(day: Day, world: World) -> None:
    containers = world.cluster.all(CONTAINERS)
    if containers:
        world.cluster.api.objects.delete(CONTAINERS, "default", name_of(day.rng.choice(containers)), {})


async def wanted_more_drives(day: Day, world: World) -> None:
    containers = world.cluster.all(CONTAINERS)
    if containers:
        one = day.rng.choice(containers)
        spec = {"numDrives": at(one, "spec", "numDrives", default=1) + 1}
        await patch(world.cluster, CONTAINERS, name_of(one), {"spec": spec})


# ── what happens to the operator ─────────────────────────────────────────────────────────────────────────────────────


async def _stir(day: Day, world: World) -> None:
    """Give it something to do, and a moment to begin."""
    await day.rng.choice((scaled, asked_otherwise, asked_otherwise, rolled_out))(day, world)
    await world.clock.sleep(day.rng.choice((0.0, 0.1, day.rng.uniform(1, 90))))


async def a_process_died(day: Day, world: World) -> None:
    await _stir(day, world)
    process = day.rng.choice(world.processes)
    if process.alive:
        await world.end(process, crash=day.rng.random() < 0.7)
        await world.clock.sleep(day.rng.uniform(0, 300))
        await world.start_operator()


async def a_process_was_stopped(day: Day, world: World) -> None:
    """As by SIGSTOP, for longer than its lease lasts; then it goes on where it was."""
    leading = [process for process in world.processes if process.operator.leading]
    process = day.rng.choice(leading or world.processes)
    await _stir(day, world)
    process.transport.pause(reads=day.rng.random() < 0.4)
    await _stir(day, world)
    await world.clock.sleep(day.rng.uniform(60, 1800))
    process.transport.resume()


async def a_clock_jumped(day: Day, world: World) -> None:
    """By an hour, forward or back; someone sets it right later."""
    process = day.rng.choice(world.processes)
    process.clock.ahead = timedelta(hours=day.rng.choice((-1, 1)))
    for _ in range(2):
        await _stir(day, world)
    await world.clock.sleep(day.rng.uniform(60, 1800))
    process.clock.ahead = timedelta(0)


async def the_network_was_bad(day: Day, world: World) -> None:
    faults = FaultRates(
        lost_calls=day.rng.choice((0.0, 0.1)), lost_answers=day.rng.choice((0.0, 0.1)),
        refusals=day.rng.choice((0.0, 0.1)), conflicts=day.rng.choice((0.0, 0.2)),
        broken_watches=day.rng.choice((0.0, 0.1)),
    )  # fmt: skip
    for process in world.processes:
        process.transport.faults = faults
    for _ in range(3):
        await _stir(day, world)
    await world.clock.sleep(day.rng.uniform(60, 900))
    for process in world.processes:
        process.transport.faults = NO_FAULTS


NewEvent = Callable[["Day", World], Awaitable[Any]]
ALWAYS: tuple[NewEvent, ...] = (
    scaled, scaled, followed_a_curve, asked_otherwise, asked_otherwise, closed_its_window, rolled_out, deleted_a_pod,
    changed_a_budget, cordoned, reclaimed, reclaimed, fell_silent,
)  # fmt: skip
WITH_GROUPS: tuple[NewEvent, ...] = (
    the_cloud_failed, the_cloud_failed, resized_a_group, deleted_a_machine_by_hand, a_machine_vanished,
    *[a_batch_came_and_went] * 6,
)  # fmt: skip
WITH_STORAGE: tuple[NewEvent, ...] = (
    asked_for_drives, asked_for_drives, asked_for_drives, let_drives_go, wanted_more_drives,
)  # fmt: skip
WITH_FAULTS: tuple[NewEvent, ...] = (a_process_died, the_network_was_bad, the_network_was_bad)
WITH_WRONG_CLOCKS: tuple[NewEvent, ...] = (a_clock_jumped, a_clock_jumped)
WITH_RIVALS: tuple[NewEvent, ...] = (a_process_died, a_process_was_stopped, a_process_was_stopped)


async def happen(day: Day, world: World) -> None:
    possible = [*ALWAYS]
    possible += WITH_GROUPS if world.cluster.all(NODE_GROUPS) else ()
    possible += WITH_STORAGE if day.storage else ()
    possible += WITH_FAULTS if day.faults else ()
    possible += WITH_RIVALS if day.rivals else ()
    possible += WITH_WRONG_CLOCKS if day.wrong_clocks else ()
    await day.rng.choice(possible)(day, world)
