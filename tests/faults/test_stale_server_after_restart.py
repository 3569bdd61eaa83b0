"""Fault 9: the operator restarts onto an API server that lags behind. What it destroys, it has read from a quorum."""

from __future__ import annotations

from tests.eventually import eventually
from tests.faults import invariants
from tests.faults.faults import StaleList
from tests.faults.rules import on
from tests.faults.runs import Run, config
from tests.faults.scene import Scene
from tests.faults.upstream import Direct, Upstream


async def test_a_restart_does_not_act_on_the_past(scene: Scene) -> None:
    """S8, S11: in the past that a cache still shows, a namesake was asked to leave and the workload was not to be kept."""
    pods = await scene.deploy(kind="StatefulSet", leaving=1)
    past = (await scene.direct.get(scene.path("pods")))["metadata"]["resourceVersion"]
    first = await Run.start(scene.proxy, "a", config(scene.namespace))
    await scene.comes_to_rest(first)
    first.crash()
    await first.exit_code()
    namesake = (await scene.pods("web"))[0]
    assert namesake["metadata"]["name"] == pods[0]["metadata"]["name"]
    assert namesake["metadata"]["uid"] != pods[0]["metadata"]["uid"]

    scene.rules.add(on("list get watch"), StaleList(past))
    mark = len(scene.record)
    second = await Run.start(scene.proxy, "b", config(scene.namespace))
    await eventually(lambda: not second.operator.view.stale, "the view is live")
    await scene.comes_to_rest(second)
    await second.stop()

    assert scene.record.works(since=mark) == [], "all was well already"
    accepts_any = [one for one in scene.record if one.call.params.get("resourceVersion") == "0"]
    assert accepts_any == [], "a read that accepts the past"
    invariants.all_of(scene)


async def test_the_stale_list_is_really_stale(scene: Scene) -> None:
    """The proxy shows the past to whoever accepts it: else the test above would prove nothing."""
    pods = await scene.deploy()
    path = scene.path("pods")
    past = (await scene.direct.get(path))["metadata"]["resourceVersion"]
    await scene.direct.delete(scene.path("pods", pods[0]["metadata"]["name"]))
    await eventually(scene.all_ready)
    scene.rules.add(on("list get watch"), StaleList(past))
    link = await scene.proxy.link("a")
    async with Direct(Upstream(link.url)) as through_proxy:
        shown = await through_proxy.get(path, {"resourceVersion": "0"})
        fresh = await through_proxy.get(path)
    wanted = {pod["metadata"]["uid"] for pod in pods}
    assert {pod["metadata"]["uid"] for pod in shown["items"]} == wanted
    assert {pod["metadata"]["uid"] for pod in fresh["items"]} != wanted
