"""`utilizationSource: metrics` on the real control plane; the proxy answers for metrics.k8s.io, as an aggregated API would."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from tests.eventually import eventually
from tests.faults.answers import Reply
from tests.faults.calls import Call
from tests.faults.faults import Answer
from tests.nodegroups.live import config
from tests.nodegroups.ordeal import ALONE, QUICK, Ordeal


async def test_what_nodes_really_use_decides(ordeal: Ordeal) -> None:
    stage = ordeal.stage
    used: dict[str, str] = {}

    def measured(_: Call) -> Reply:
        timestamp = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        items = [
            {
                "metadata": {"name": name},
                "timestamp": timestamp,
                "window": "15s",
                "usage": {"cpu": cpu, "memory": "1Gi"},
            }
            for name, cpu in used.items()
        ]
        body = {"kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "items": items}
        return Reply(200, json.dumps(body).encode())

    asked = ordeal.rules.add(lambda call: call.group == "metrics.k8s.io", Answer(measured))
    await stage.group(maxNodes=3, desiredNodes=3, scaleDownPolicy=QUICK)
    settings = config(stage.namespace, election=ALONE, utilization_source="metrics")
    async with ordeal.life(settings=settings):
        await stage.settled(3)
        busy, idle, unknown = sorted(node.name for node in await stage.nodes())
        used |= {busy: "1500m", idle: "1900000n"}
        before = asked.struck
        await stage.change(desiredNodes=None)
        await eventually(lambda: _left(ordeal, {busy, unknown}), "what is little used goes")
        await eventually(lambda: asked.struck >= before + 4, "measured again and again")
        assert await _left(ordeal, {busy, unknown}), "nothing is requested there; much is used, or nothing is known"
        used |= {busy: "100m", unknown: "100m"}
        await stage.settled(0)
    await ordeal.was_safe(most=3)


async def _left(ordeal: Ordeal, names: set[str]) -> bool:
    return {node.name for node in await ordeal.stage.nodes()} == names
