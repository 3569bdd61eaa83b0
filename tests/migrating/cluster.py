"""A cluster as another system leaves it, and Plimsoll started in its place."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from plimsoll.runtime.exit_codes import ExitCode
from tests.cli.command import PLIMSOLL, environment
from tests.cli.running import Running, running
from tests.eventually import eventually
from tests.faults.upstream import Direct, Json, Upstream
from tools.controlplane.cluster import ControlPlane


class Place:
    """A namespace of the cluster, written to past Plimsoll."""

    def __init__(self, cluster: ControlPlane, direct: Direct, namespace: str, home: str) -> None:
        self.cluster, self.direct, self.namespace, self.home = cluster, direct, namespace, home
        self.pods_path = f"/api/v1/namespaces/{namespace}/pods"
        self.deployments_path = f"/apis/apps/v1/namespaces/{namespace}/deployments"

    async def deploy(
        self, name: str, replicas: int, annotations: dict[str, str], *, cpu: str = "1m", **meta: Any
    ) -> None:
        labels = {"app": name}
        spec = {
            "containers": [{"name": "main", "image": "example.org/none", "resources": {"requests": {"cpu": cpu}}}],
            "terminationGracePeriodSeconds": 0,
        }
        body = {
            "metadata": {"name": name, "annotations": annotations, **meta},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
        await self.direct.create(self.deployments_path, body)
        await eventually(lambda: self.all_ready(replicas), f"{replicas} ready pods")

    async def scale(self, name: str, replicas: int) -> None:
        await self.direct.patch(f"{self.deployments_path}/{name}", {"spec": {"replicas": replicas}})

    async def annotate(self, name: str, **annotations: str | None) -> None:
        await self.direct.patch(f"{self.deployments_path}/{name}", {"metadata": {"annotations": annotations}})

    async def pods(self) -> list[Json]:
        items: list[Json] = (await self.direct.get(self.pods_path))["items"]
        return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]

    async def all_ready(self, count: int) -> bool:
        pods = await self.pods()
        return len(pods) == count and all(
            any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", ()))
            for pod in pods
        )

    async def uids(self) -> set[str]:
        return {pod["metadata"]["uid"] for pod in await self.pods()}

    async def command(self, *arguments: str) -> str:
        """A command of Plimsoll on this cluster; it succeeds, and what it prints is returned."""
        process = await asyncio.create_subprocess_exec(
            str(PLIMSOLL), *arguments, "--kubeconfig", str(self.cluster.kubeconfig), "--set", f"operator.namespace={self.home}",
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=environment(),
        )  # fmt: skip
        printed, _ = await process.communicate()
        assert process.returncode == 0, printed.decode()
        return printed.decode()


@asynccontextmanager
async def place(cluster: ControlPlane, namespace: str) -> AsyncIterator[Place]:
    home = cluster.add_namespace("home")
    async with Direct(Upstream.from_kubeconfig(cluster.kubeconfig)) as direct:
        try:
            yield Place(cluster, direct, namespace, home)
        finally:
            cluster.remove_namespace(home)


@asynccontextmanager
async def switched_on(where: Place, directory: Path, controllers: str, *settings: str) -> AsyncIterator[Running]:
    """Plimsoll in the other's place, leading; stopped, as one is who goes back, when the block ends."""
    chosen = ("--controllers", controllers, "--set", f"operator.namespace={where.home}")
    more = [word for setting in settings for word in ("--set", setting)]
    async with running(directory, "--kubeconfig", str(where.cluster.kubeconfig), *chosen, *more) as operator:
        await operator.ready()
        await eventually(lambda: metric(operator, "plimsoll_leading"), "leadership")
        yield operator
        operator.process.send_signal(signal.SIGTERM)
        assert await operator.exit_code() == ExitCode.STOPPED


async def metric(operator: Running, *beginnings: str) -> float:
    """The sum of the samples that begin so, in the operator's own reply to a scrape."""
    text = (await operator.answer("/metrics"))[1]
    lines = [
        line for line in text.splitlines() if all(word in line for word in beginnings) and not line.startswith("#")
    ]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


async def settled(operator: Running, controller: str) -> None:
    """It has decided, and then several times more, and wrote nothing in between."""

    async def counts() -> tuple[float, float]:
        decided = await metric(operator, "plimsoll_decisions_total", f'controller="{controller}"')
        return decided, await metric(operator, "plimsoll_actions_total", f'controller="{controller}"')

    await eventually(lambda: metric(operator, "plimsoll_decisions_total", f'controller="{controller}"'), "a decision")
    decided, acted = await counts()

    async def quiet() -> bool:
        nonlocal decided, acted
        now = await counts()
        if now[1] != acted:
            decided, acted = now
        return now[0] >= decided + 3

    await eventually(quiet, "decisions without an act")
