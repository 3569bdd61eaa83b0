"""Pod priority and preemption: the value from the PriorityClass, and the pods that are preempted."""

from __future__ import annotations

from typing import Any

from tests.conformance.build import pod
from tests.conformance.sides import Json, Side, same

_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


async def test_priorities(both: tuple[Side, Side]) -> None:
    await same(priorities, both)


async def priorities(side: Side) -> None:
    high, low = f"{side.namespace}-high", f"{side.namespace}-low"
    for name, value in ((high, 1000), (low, 10)):
        side.call(name, name.rpartition("-")[2].upper())
        await side.ask("POST", _CLASSES, {"metadata": {"name": name}, "value": value})
    (node,) = await side.add_nodes("1 cpu=4")
    side.call(node, "NODE")
    pods = side.path("pods")
    show = ("spec.priority", "spec.priorityClassName", "spec.preemptionPolicy")
    await side.tell("without a class", "POST", pods, _pod(side, "none", "100m"), show=show)
    await side.tell("of an unknown class", "POST", pods, _pod(side, "odd", "1", priorityClassName="nobody"))
    await side.tell("unimportant", "POST", pods, _pod(side, "low", "2", priorityClassName=low), show=show)
    for name in ("none", "low"):
        await side.until(f"{pods}/{name}", _is_ready, f"{name} runs")
    await side.tell("important", "POST", pods, _pod(side, "high", "3", priorityClassName=high), show=show)
    found = await side.until(f"{pods}/high", _is_ready, "the important one runs")
    side.note("where", found["spec"]["nodeName"])
    await side.gone(f"{pods}/low")
    _, listed = await side.ask("GET", pods)
    side.note("who is left", sorted(one["metadata"]["name"] for one in listed["items"]))
    for name in (high, low):
        await side.ask("DELETE", f"{_CLASSES}/{name}")


def _pod(side: Side, name: str, cpu: str, **spec: Any) -> Json:
    made = pod(side, name, terminationGracePeriodSeconds=0, **spec)
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return made


def _is_ready(found: Json) -> bool:
    conditions = found["status"].get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
