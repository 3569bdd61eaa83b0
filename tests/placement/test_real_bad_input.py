"""Invalid annotations are reported once per change, and the workload is left alone until they are fixed."""

from __future__ import annotations

from collections.abc import Callable

from structlog.testing import capture_logs

from plimsoll.controllers.placement.annotations import CLASS
from plimsoll.controllers.placement.spec import ENABLED, SPOT_PERCENTAGE
from plimsoll.kube.client.client import Client
from plimsoll.kube.types.resources import EVENTS
from tests.eventually import eventually
from tests.placement.live import Workload, asking, config, evictions, operating
from tools.controlplane.cluster import ControlPlane

LABELS = {"workload": "web", "workload_type": "deployment", "error_type": "InvalidAnnotations"}


async def test_one_record_one_event_and_one_count_for_each_change(
    control_plane: ControlPlane, client: Client, namespace: str, home: str, kwok_nodes: Callable[[str], list[str]]
):
    kwok_nodes("1 zone=a class=on-demand"), kwok_nodes("1 zone=a class=spot")
    async with operating(control_plane, namespace, config(home, namespace)) as running:
        reconciler = running.operator.reconcilers[0]

        def told() -> float:
            return running.counted("spotalis_reconciliation_errors_total", namespace=namespace, **LABELS)

        async def looks() -> None:
            for _ in range(3):
                await eventually(lambda: reconciler.queue.idle, "the queue runs dry")
                reconciler.enqueue_all()
            await eventually(lambda: reconciler.queue.idle, "the queue runs dry")

        with capture_logs() as records:
            web = await Workload(client, namespace, "web").create(4, {ENABLED: "true", SPOT_PERCENTAGE: "70"})
            await eventually(lambda: told() == 1, "the first wrong value is told")
            await web.annotate({"unrelated": "change"})
            await looks()
            assert told() == 1, "not once a look"
            await web.annotate({SPOT_PERCENTAGE: "101%"})
            await eventually(lambda: told() == 2, "the second wrong value is told")
            await looks()
            assert told() == 2
        errors = [record["event"] for record in records if record["log_level"] == "error"]
        assert len(errors) == 2
        for text, value in zip(errors, ('"70"', '"101%"'), strict=True):
            assert f"Deployment {namespace}/web" in text and SPOT_PERCENTAGE in text and value in text

        async def events() -> bool:
            found = [one for one in (await client.list(EVENTS, namespace)).items if one.reason == "InvalidAnnotations"]
            return len(found) == 2 and all(one.type == "Warning" for one in found)

        await eventually(events, "two warnings")
        assert all(CLASS not in pod.annotations for pod in await web.pods()), "not mutated"
        assert evictions(running) == 0
        await web.annotate(asking(50))
        await web.settled(2, 2)
