"""A Deployment on the real control plane, and the operator that gives its pods their values.

The ReplicaSet controller does the deleting, kube-scheduler the placing; a test directs where pods come back by cordoning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

from plimsoll.config import Config, Controllers, DeletionCost, Kubernetes, LeaderElectionConfig, OperatorConfig
from plimsoll.controllers.build import controllers
from plimsoll.controllers.deletion_cost.order import skew
from plimsoll.controllers.deletion_cost.spec import PREFIX
from plimsoll.controllers.deletion_cost.values import COST, VALUE_RECORD
from tests.eventually import eventually
from tests.faults.life import Life
from tests.faults.proxy import Link, Proxy
from tests.faults.record import Record
from tests.faults.rules import Rules, on
from tests.faults.upstream import Direct, Json, RefusedError

POOL = "plimsoll.test/pool"
ZONE = "topology.kubernetes.io/zone"
writes = on("patch", "pods")


def config(settings: DeletionCost) -> Config:
    return Config(
        operator=OperatorConfig(audit_log="", leader_election=LeaderElectionConfig(enabled=False)),
        controllers=Controllers(enabled=("deletion-cost",), deletion_cost=settings),
        kubernetes=Kubernetes(request_timeout=timedelta(seconds=10)),
    )


def begin(link: Link, settings: DeletionCost) -> Life:
    chosen = config(settings)
    return Life(link, chosen, controllers(chosen))


class Live:
    """What a test does to its Deployment, always past the proxy."""

    def __init__(
        self, namespace: str, nodes: Mapping[str, list[str]], direct: Direct, proxy: Proxy, rules: Rules
    ) -> None:
        self.namespace = namespace
        self.nodes = nodes  # by zone
        self.direct = direct
        self.rules = rules
        self.record: Record = proxy.record
        self._proxy = proxy
        self._zones = {node: zone for zone, names in nodes.items() for node in names}
        self._lives: list[Life] = []

    # ── the operator ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def start(self, **settings: Any) -> Life:
        link = await self._proxy.link(f"life{len(self._lives) + 1}")
        life = begin(link, DeletionCost(**settings))
        self._lives.append(life)
        return life

    async def stop_all(self) -> None:
        for life in self._lives:
            await life.stop()

    async def comes_to_rest(self, life: Life) -> None:
        """Every ready pod has a value of ours, and nothing more is written, however often one looks."""
        await eventually(self.all_covered, "every pod has a value")
        mark = -1
        while mark != len(self.record.works()):
            mark = len(self.record.works())
            await life.rounds(2)
        assert await self.all_covered()

    async def all_covered(self) -> bool:
        return all(COST in annotations_of(pod) and VALUE_RECORD in annotations_of(pod) for pod in await self.pods())

    def written(self) -> list[str]:
        """The UIDs of pods that were written to, in order, whatever the operator was told."""
        return [exchange.result["metadata"]["uid"] for exchange in self.record.of(writes) if exchange.applied]

    # ── the Deployment ───────────────────────────────────────────────────────────────────────────────────────────────

    def _path(self, name: str = "web", collection: str = "apis/apps/v1", kind: str = "deployments") -> str:
        return f"/{collection}/namespaces/{self.namespace}/{kind}" + (f"/{name}" if name else "")

    def pod_path(self, name: str = "") -> str:
        return self._path(name, "api/v1", "pods")

    async def deploy(self, replicas: int, *, wait: bool = True, **annotations: str) -> None:
        """A Deployment, enabled, spread over the zones as well as the scheduler can."""
        labels = {"app": "web"}
        spread = {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": labels},
            "matchLabelKeys": ["pod-template-hash"],
        }
        spec = {
            "containers": [{"name": "main", "image": "example.org/none"}],
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {POOL: "deletion-cost"},
            "topologySpreadConstraints": [spread],
        }
        asked = {PREFIX + name.replace("_", "-"): value for name, value in ({"enabled": "true"} | annotations).items()}
        await self.direct.create(
            self._path(""),
            {
                "metadata": {"name": "web", "annotations": asked},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": spec},
                    "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
                },
            },
        )
        if wait:
            await self.all_ready(replicas)

    async def annotate(self, **annotations: str | None) -> None:
        changed = {PREFIX + name.replace("_", "-"): value for name, value in annotations.items()}
        await self.direct.patch(self._path(), {"metadata": {"annotations": changed}})

    async def ask_for(self, replicas: int) -> None:
        await self.direct.patch(self._path(), {"spec": {"replicas": replicas}})

    async def scale(self, replicas: int) -> dict[str, int]:
        """Scale, wait until it is done, and count the pods by zone."""
        await self.ask_for(replicas)
        await self.all_ready(replicas)
        return await self.by_zone()

    async def roll_out(self) -> None:
        template = {"metadata": {"annotations": {"plimsoll.test/version": str(len(self.record))}}}
        replicas = (await self.direct.get(self._path()))["spec"]["replicas"]
        changed = await self.direct.patch(self._path(), {"spec": {"template": template}})

        async def done() -> bool:
            status = (await self.direct.get(self._path()))["status"]
            counts = {status.get(name, 0) for name in ("replicas", "updatedReplicas", "readyReplicas")}
            return counts == {replicas} and bool(status["observedGeneration"] >= changed["metadata"]["generation"])

        await eventually(done, "the rollout is done")
        await self.all_ready(replicas)

    async def all_ready(self, replicas: int) -> list[Json]:
        async def ready() -> list[Json] | None:
            pods = await self.pods()
            return pods if len(pods) == replicas and all(map(is_ready, pods)) else None

        found: list[Json] = await eventually(ready, f"{replicas} ready pods") if replicas else []
        return found

    async def pods(self) -> list[Json]:
        """Those that are there to stay."""
        pods: Iterable[Json] = (await self.direct.get(self.pod_path()))["items"]
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    async def costs(self) -> dict[str, int]:
        return {
            pod["metadata"]["name"]: int(annotations_of(pod)[COST])
            for pod in await self.pods()
            if COST in annotations_of(pod)
        }

    async def by_zone(self) -> dict[str, int]:
        counts = Counter(dict.fromkeys(self.nodes, 0))
        counts.update(self.zone_of(pod) for pod in await self.pods())
        return dict(counts)

    def zone_of(self, pod: Json) -> str:
        return self._zones[pod["spec"]["nodeName"]]

    async def in_zone(self, zone: str) -> list[Json]:
        """The pods of a zone, the one with the highest value first."""
        pods = [pod for pod in await self.pods() if self.zone_of(pod) == zone]
        return sorted(pods, key=lambda pod: -int(annotations_of(pod).get(COST, "0")))

    async def delete(self, pod: Json) -> None:
        with suppress(RefusedError):  # it may have gone by itself
            await self.direct.delete(self.pod_path(pod["metadata"]["name"]))

    # ── the nodes ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def cordon(self, zones: Iterable[str], *, on: bool = True) -> None:
        for zone in zones:
            for node in self.nodes[zone]:
                await self.direct.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": on or None}})

    async def move(self, pod: Json, zone: str) -> None:
        """A pod is lost and its replacement can only run in that zone."""
        replicas = len(await self.pods())
        others = [other for other in self.nodes if other != zone]
        await self.cordon(others)
        await self.delete(pod)

        async def replaced() -> bool:
            pods = await self.pods()
            uids = {one["metadata"]["uid"] for one in pods}
            return len(pods) == replicas and pod["metadata"]["uid"] not in uids and all(map(is_ready, pods))

        await eventually(replaced, "the pod is replaced")
        await self.cordon(others, on=False)

    # ── what must hold ───────────────────────────────────────────────────────────────────────────────────────────────

    async def scale_down_through_every_size(self) -> None:
        """At every n the skew is what it would be if each deletion took from a fullest zone."""
        counts = Counter(await self.by_zone())
        for replicas in range(counts.total() - 1, 0, -1):
            counts[counts.most_common(1)[0][0]] -= 1
            left = await self.scale(replicas)
            assert skew(left) == skew(counts), f"{left} of {replicas} pods; it could be {dict(counts)}"


def annotations_of(pod: Json) -> Mapping[str, str]:
    found: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    return found


def is_ready(pod: Json) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))
