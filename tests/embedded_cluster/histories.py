"""A random day of a cluster with the operator at work: what there is, what happens to it, and how it must end.

A seed decides everything. What each day has beside placement and deletion costs (node groups, storage containers, a second process,
faults, zonal volumes, daemons, clocks that jump) follows from the seed, too, so that fifty days in a row have all of it in many
combinations, and none pays for everything.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

from plimsoll.config import (
    Allocation,
    Config,
    ControllerName,
    Controllers,
    DisruptionLimitsConfig,
    Kubernetes,
    LeaderElectionConfig,
    OperatorConfig,
    Placement,
    WorkloadTiming,
)
from plimsoll.config.nodegroups import NodeGroups
from plimsoll.config.providers import Kwok, KwokOffering, Providers
from plimsoll.controllers.nodegroups.settings import NodeGroupSettings
from plimsoll.controllers.placement.spec import DURATION, SCHEDULE
from plimsoll.controllers.placement.target import Share, target
from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json, at, name_of
from plimsoll.embedded_cluster.api.storage import ObjectChange
from plimsoll.embedded_cluster.clocks import VirtualClock
from plimsoll.embedded_cluster.controllers.context import ClusterTimings
from plimsoll.runtime.exit_codes import ExitCode
from plimsoll.simulate.custom_kinds import NODE_GROUPS
from plimsoll.simulate.fault_transport import NO_FAULTS
from plimsoll.simulate.population import create_object, populate_cluster
from plimsoll.simulate.world import World
from tests.embedded_cluster.random_events import DAY_SECONDS, POOL, Workload, daemon, happen, storage_nodes
from tests.embedded_cluster.scene import patch

NODES = tuple(f"1 zone={zone} class={kind} cpu=16" for zone in "abc" for kind in ("spot", "on-demand"))
# A container that starts slowly is missing for longer: more can go wrong meanwhile.
TIMES = ClusterTimings(node_ready=20.0, pod_start=20.0, pod_stop=5.0, bookmark=3600.0, watch=1800.0)
# Ends that a process may come to when it was cut off; a kubelet then starts it again.
_RESTARTED = (ExitCode.LEADERSHIP_LOST, ExitCode.VIEW_TOO_OLD)
# At the end nothing more happens for so long; the last part of it must be silent.
_CALM_SECONDS, _SILENT_SECONDS, _WRONG_SECONDS = 7200.0, 1800.0, 3600.0
# A group strikes a setback from its status so long after it was over.
_FORGOTTEN_SECONDS = NodeGroupSettings().backoff_reset.total_seconds()
# Node groups are there for the last third of a day: they are looked at every half minute, which costs the most of all.
_GROUPS_FROM_SECONDS = DAY_SECONDS * 2 / 3


class Day:
    def __init__(self, seed: int, *, record_event: Callable[[ObjectChange], None] | None = None) -> None:
        """tell: is told of every change of every object."""
        self.seed = seed
        self._tell = record_event
        self.rng = Random(seed)
        self.groups = seed % 3 == 0
        self.storage = seed % 3 == 1
        self.rivals = seed % 4 == 1
        self.faults = seed % 2 == 0
        self.volumes = seed % 5 == 2
        self.daemons = seed % 5 == 3
        self.wrong_clocks = seed % 5 == 4
        self.workloads = [
            Workload(kinds.DEPLOYMENTS, "web", replicas=6),
            Workload(kinds.DEPLOYMENTS, "api", replicas=4),
            Workload(kinds.STATEFULSETS, "db", replicas=3, volumes=self.volumes),
        ]
        if self.groups:
            self.workloads.append(Workload(kinds.DEPLOYMENTS, "batch", replicas=0, pool=POOL, managed=False))
        self.evictions = 0

    def config(self) -> Config:
        enabled: list[ControllerName] = ["placement", "deletion-cost"]
        enabled += ["nodegroups"] if self.groups else []
        enabled += ["allocation"] if self.storage else []
        # Renewed seldom: an election every other second would be most of what happens in a day.
        election = LeaderElectionConfig(
            lease_duration=timedelta(minutes=10), renew_deadline=timedelta(minutes=7), retry_period=timedelta(minutes=2)
        )
        limits = DisruptionLimitsConfig(
            per_workload=self.rng.choice((2, 5, 100)), per_cluster=self.rng.choice((6, 1000))
        )
        timing = WorkloadTiming(cooldown_period=timedelta(seconds=10), disruption_retry_interval=timedelta(seconds=30))
        offerings = (
            KwokOffering("small", cpu="2", memory="8Gi", price=0.05),
            KwokOffering("large", cpu="8", memory="32Gi", price=0.2),
        )
        return Config(
            operator=OperatorConfig(audit_log="", leader_election=election, disruption_limits=limits),
            controllers=Controllers(enabled=tuple(enabled), workload_timing=timing),
            placement=Placement(max_migrations=1000, max_migrations_per_cluster=1000),
            nodegroups=NodeGroups(poll_interval=timedelta(minutes=2), backoff=timedelta(minutes=1)),
            allocation=Allocation(shortage_wait=timedelta(minutes=10)),
            providers=Providers(kwok=Kwok(offerings=offerings)),
            kubernetes=Kubernetes(max_view_age=timedelta(hours=1), exit_view_age=timedelta(hours=3)),
        )

    # ── the day ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def live(self, *, events: int) -> World:
        """From morning to the next morning; the world as it is then, for whoever wants to see more."""
        async with World(self.config(), VirtualClock(), seed=self.seed, times=TIMES, election=self.rivals) as world:
            if self._tell is not None:
                world.cluster.api.storage.listeners.append(self._tell)
            await self._begin(world)
            # Most of it while there are node groups, where there are any.
            first = _GROUPS_FROM_SECONDS * 0.8 if self.groups else 0.0
            moments = sorted(self.rng.uniform(first, DAY_SECONDS - _CALM_SECONDS) for _ in range(events))
            began = world.clock.monotonic()
            for moment in moments:
                # Never two at one instant: what happens while an eviction is on its way cannot be known to whoever sent it.
                await self._pass(world, max(5.0, began + moment - world.clock.monotonic()))
                if self.groups and moment > _GROUPS_FROM_SECONDS:
                    await self._make_groups(world)
                await happen(self, world)
            await self._calm_down(world)
            # What was stamped by a clock that was an hour ahead is over an hour later.
            calm = _CALM_SECONDS + (_WRONG_SECONDS if self.wrong_clocks else 0.0)
            calm += _FORGOTTEN_SECONDS if self.groups else 0.0
            await self._pass(world, max(calm, began + DAY_SECONDS - world.clock.monotonic()))
            self._judge(world)
            self.evictions = world.invariants.evictions
            return world

    async def _begin(self, world: World) -> None:
        await populate_cluster(world, None, NODES)
        for workload in self.workloads:
            await create_object(world.cluster, workload.manifest())
        if self.daemons:
            await create_object(world.cluster, daemon())
        if self.rng.random() < 0.7:
            await create_object(world.cluster, _budget("web", maxUnavailable=self.rng.choice((1, 2, "30%"))))
        if self.rng.random() < 0.5:
            await create_object(world.cluster, _budget("db", minAvailable=2))
        if self.storage:
            storage_nodes(world)
        for _ in range(2 if self.rivals else 1):
            await world.start_operator()
        await self._pass(world, 300)

    async def _make_groups(self, world: World) -> None:
        if not world.cluster.all(NODE_GROUPS):
            await create_object(world.cluster, node_group("mixed", maxNodes=4, allowMixedInstances=True))
            await create_object(world.cluster, node_group("small", minNodes=1, maxNodes=3, offeringIDs=["small"]))

    async def _pass(self, world: World, seconds: float) -> None:
        """Time passes; a process that ended because it was cut off is started again, as a kubelet does."""
        left = max(0.0, seconds)
        while True:
            step = min(left, 900.0)
            await world.clock.sleep(step)
            left -= step
            for process in tuple(world.processes):
                code = process.ended_by_itself()
                if code is not None:
                    assert code in _RESTARTED, f"seed {self.seed}: a process ended with {code.name}"
                    world.processes.remove(process)
                    await world.start_operator()
            if left <= 0:
                return

    async def _calm_down(self, world: World) -> None:
        """Whatever is broken is mended: what must be reached in the end can be reached now."""
        world.cloud.reachable, world.cloud.quota, world.cloud.serves_stale_lists = True, None, False
        world.cloud.sold_out.clear()
        world.cloud.lost_answers = 0
        for process in world.processes:
            process.transport.faults = NO_FAULTS
            process.transport.resume()
            process.clock.ahead = timedelta(0)
        for workload in self.workloads:
            await workload.annotate(world, {SCHEDULE: None, DURATION: None})
        for budget in world.cluster.all(kinds.BUDGETS):
            wanted = next(one.replicas for one in self.workloads if one.name == name_of(budget))
            if wanted and at(budget, "status", "desiredHealthy", default=0) >= wanted:  # nobody may ever leave
                await patch(
                    world.cluster, kinds.BUDGETS, name_of(budget), {"spec": {"minAvailable": None, "maxUnavailable": 1}}
                )

    def _judge(self, world: World) -> None:
        world.invariants.liveness.must_be_at_rest(_SILENT_SECONDS)
        violated = [str(one) for one in world.invariants.violations]
        assert not violated, f"seed {self.seed}:\n" + "\n".join(violated[:20])
        for workload in self.workloads:
            found = world.cluster.api.storage.get(workload.kind, "default", workload.name)
            assert found is not None
            share = Share(workload.minimum, workload.percentage)
            if workload.managed and workload.minimum <= workload.replicas:
                aim = target(workload.replicas, share)
                assert world.invariants.split(found) == (aim.spot, aim.on_demand), f"seed {self.seed}: {workload.name}"


def _budget(app: str, **spec: Any) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
    }


def node_group(name: str, **spec: Any) -> Json:
    return {
        "apiVersion": NODE_GROUPS.api_version,
        "kind": "NodeGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "minNodes": 0, "maxNodes": 3, "datacenterID": "dc", "resourceIdentifier": "cluster", "project": "p",
            "offeringIDs": ["small", "large"], "kubernetesVersion": "v1.36.3", "provider": "kwok",
            "labels": {"pool": POOL}, "scaleDownPolicy": {"underutilizationDuration": "10m"}, **spec,
        },
    }  # fmt: skip
