"""Fault 7: a watch lags behind, or is open and silent. What the view does not show yet is not decided upon twice."""

from __future__ import annotations

from datetime import timedelta

from plimsoll.config import Kubernetes
from plimsoll.kube.types.resources import PODS
from plimsoll.runtime.exit_codes import ExitCode
from tests.eventually import eventually
from tests.faults import answers, invariants
from tests.faults.example import LEAVE
from tests.faults.faults import Answer, HoldEvents, LateEvents
from tests.faults.invariants import evictions
from tests.faults.rules import on
from tests.faults.runs import Run, config
from tests.faults.scene import Scene


async def test_no_second_pod_leaves_while_the_first_one_is_not_seen_to(scene: Scene) -> None:
    """S4: the pods' watch is silent from the start, so nothing shows that an eviction has happened, or is over."""
    await scene.deploy(leaving=2)
    silence = HoldEvents()
    scene.rules.add(on("watch", "pods"), silence)
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    await scene.record.until(lambda record: [one.applied for one in evictions(record)] == [True])
    await eventually(scene.all_ready, "its replacement is ready, though the operator cannot know")
    for _ in range(5):
        await run.look()
    assert len(evictions(scene.record)) == 1

    silence.released.set()
    await scene.comes_to_rest(run)
    await run.stop()
    invariants.all_of(scene)
    assert len(evictions(scene.record)) == 2


async def test_every_watch_lags_behind(scene: Scene) -> None:
    await scene.deploy(leaving=2)
    for kind in ("pods", "configmaps", "deployments", "replicasets", "nodes"):
        scene.rules.add(on("watch", kind), LateEvents(0.7))
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    await scene.comes_to_rest(run)
    await scene.let_go()
    await scene.comes_to_rest(run)
    await run.stop()
    invariants.all_of(scene)


async def test_what_changed_during_the_silence_is_read_live_before_it_is_acted_on(scene: Scene) -> None:
    """S4: a pod whose wish to leave was withdrawn stays, although the view still shows the wish."""
    pods = await scene.deploy()
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    await scene.comes_to_rest(run)
    silence = HoldEvents(passing=1)
    scene.rules.add(on("watch", "pods"), silence)
    run.link.drop(on("watch", "pods"))
    await scene.record.until(lambda record: len(record.of(on("watch", "pods"))) >= 2)
    await scene.ask_to_leave(pods[0])
    await scene.annotate("pods", pods[0]["metadata"]["name"], {LEAVE: None})
    # Both have happened; the operator now learns of the wish, and not of its withdrawal.
    silence.begun.set()
    await eventually(lambda: _wishes(run) == 1, "the operator sees the wish")
    for _ in range(3):
        await run.look()
    assert [one for one in evictions(scene.record) if one.applied] == []

    silence.released.set()
    await eventually(lambda: _wishes(run) == 0)
    await scene.comes_to_rest(run)
    await run.stop()
    assert evictions(scene.record) == []
    invariants.all_of(scene)


async def test_a_watch_that_stays_silent_does_not_keep_the_view_in_the_past(scene: Scene) -> None:
    """L5: what a silent watch does not tell is found out in another way."""
    pods = await scene.deploy()
    impatient = Kubernetes(qps=500, burst=500, watch_idle_timeout=timedelta(seconds=1))
    scene.rules.add(on("watch", "pods"), HoldEvents())
    run = await Run.start(scene.proxy, "a", config(scene.namespace, kubernetes=impatient))
    await eventually(lambda: run.operator.view[PODS].synced, "the view was live once")
    await scene.direct.delete(scene.path("pods", pods[0]["metadata"]["name"]))
    await eventually(scene.all_ready)

    async def seen() -> bool:
        shown = {pod.uid for pod in run.operator.view[PODS] if pod.namespace == scene.namespace}
        return shown == {pod["metadata"]["uid"] for pod in await scene.pods("web")}

    await eventually(seen, "the view shows the pods as they are")
    await run.stop()


async def test_a_view_that_cannot_be_renewed_makes_the_process_unready_and_ends_it(scene: Scene) -> None:
    """L5: first unready, with the reason; then exit code 5. Until then nothing is destroyed on the strength of it."""
    pods = await scene.deploy()
    short = Kubernetes(
        qps=500, burst=500, watch_idle_timeout=timedelta(minutes=1), max_view_age=timedelta(seconds=2),
        exit_view_age=timedelta(seconds=5), request_timeout=timedelta(seconds=2),
    )  # fmt: skip
    run = await Run.start(scene.proxy, "a", config(scene.namespace, kubernetes=short))
    await eventually(scene.reached)
    scene.rules.add(on("list watch"), Answer(answers.unavailable))
    run.link.drop(on("watch"))
    await scene.ask_to_leave(pods[0])
    await eventually(run.operator.not_ready, "it says that it is not ready")
    assert not run.ended
    assert await run.exit_code() is ExitCode.VIEW_TOO_OLD
    assert evictions(scene.record) == []


def _wishes(run: Run) -> int:
    return sum(pod.annotations.get(LEAVE) == "true" for pod in run.operator.view[PODS])
