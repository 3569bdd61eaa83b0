"""The operator as a whole on a real API server: standby and leader, health, and the ways in which it ends."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

import pytest

from plimsoll.config import Config, Controllers, Kubernetes, LeaderElectionConfig, OperatorConfig
from plimsoll.disruption.ledger import Disruption
from plimsoll.disruption.store import DisruptionStore
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import NotFound
from plimsoll.kube.types.resources import DEPLOYMENTS, LEASES, Key
from plimsoll.runtime.clock import Clock, RealClock
from plimsoll.runtime.decision import Permission
from plimsoll.runtime.exit_codes import ExitCode
from plimsoll.runtime.metrics import Metrics
from plimsoll.runtime.operator import Operator, connect
from tests import build
from tests.clocks import PushedClock
from tests.eventually import PATIENCE_SECONDS, eventually
from tests.runtime.test_reconciler import Scripted
from tools.controlplane.cluster import ControlPlane

ELECTION = LeaderElectionConfig(
    lease_duration=timedelta(seconds=15), renew_deadline=timedelta(seconds=10), retry_period=timedelta(milliseconds=100)
)


def config(
    namespace: str, *, read_only: bool = False, kubernetes: Kubernetes | None = None, watch: tuple[str, ...] = ()
) -> Config:
    return Config(
        operator=OperatorConfig(
            namespace=namespace,
            audit_log="",
            leader_election=ELECTION,
            read_only_mode=read_only,
            watch_namespaces=watch,
        ),
        controllers=Controllers(max_concurrent_reconciles=2),
        kubernetes=kubernetes or Kubernetes(qps=500, burst=500),
    )


class Life:
    def __init__(self, operator: Operator, controller: Scripted) -> None:
        self.operator, self.controller = operator, controller
        self.stop = asyncio.Event()
        self.task = asyncio.create_task(operator.run(self.stop))

    def leading(self) -> bool:
        return self.operator.metrics.registry.get_sample_value("plimsoll_leading") == 1


@asynccontextmanager
async def alive(
    control_plane: ControlPlane,
    settings: Config,
    name: str,
    *,
    clock: Clock | None = None,
    controller: Scripted | None = None,
) -> AsyncIterator[Life]:
    metrics = Metrics()
    controller = controller or Scripted()
    async with connect(settings, metrics, kubeconfig=Path(control_plane.kubeconfig), context=None) as client:
        life = Life(
            Operator(settings, client, [controller], clock=clock or RealClock(), metrics=metrics, name=name), controller
        )
        try:
            yield life
        finally:
            life.stop.set()
            await asyncio.gather(life.task, return_exceptions=True)


async def deployed(client: Client, namespace: str, name: str = "web") -> None:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "web"}]}}
    body = {
        "metadata": {"name": name},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }
    await client.create(DEPLOYMENTS, namespace, body)


async def test_a_synced_standby_is_ready_and_takes_over_at_once_when_the_leader_stops(
    control_plane: ControlPlane, client: Client, namespace: str
):
    await deployed(client, namespace)
    settings = config(namespace)
    async with alive(control_plane, settings, "one") as one:
        await eventually(one.leading)
        async with alive(control_plane, settings, "two") as two:
            await eventually(lambda: two.operator.not_ready() is None)
            assert not two.leading()
            assert two.controller.asked == []
            one.stop.set()
            assert await asyncio.wait_for(one.task, PATIENCE_SECONDS) == ExitCode.STOPPED
            await eventually(two.leading)
            await eventually(lambda: any(key.namespace == namespace for key in two.controller.asked))


async def test_read_only_takes_no_lease_and_still_decides(control_plane: ControlPlane, client: Client, namespace: str):
    await deployed(client, namespace)
    async with alive(control_plane, config(namespace, read_only=True), "watcher") as life:
        await eventually(lambda: any(key.namespace == namespace for key in life.controller.asked))
        try:
            await client.get(LEASES, namespace, "plimsoll-leader")
        except NotFound:
            return
        raise AssertionError("a lease was taken in read-only mode")


async def test_only_the_watched_namespaces_are_seen_and_decided_about(
    control_plane: ControlPlane, client: Client, namespace: str
):
    others = [control_plane.add_namespace() for _ in range(2)]
    try:
        for name in (namespace, *others):
            await deployed(client, name)
        settings = config(namespace, read_only=True, watch=(namespace, others[0]))
        async with alive(control_plane, settings, "narrow") as life:
            seen = {namespace, others[0]}
            await eventually(lambda: {key.namespace for key in life.controller.asked} == seen)
            assert life.operator.not_ready() is None
            assert {deployment.namespace for deployment in life.operator.view[DEPLOYMENTS]} == seen
            await deployed(client, others[0], "late")
            await eventually(lambda: life.operator.view[DEPLOYMENTS].get(others[0], "late"))
            late = life.operator.view[DEPLOYMENTS].get(others[0], "late")
            assert late is not None
            await client.delete(DEPLOYMENTS, others[0], "late", uid=late.uid)
            await eventually(lambda: life.operator.view[DEPLOYMENTS].get(others[0], "late") is None)
            version = life.operator.view[DEPLOYMENTS].version_at
            assert version(others[0]).isdecimal()
            assert version(others[1]) == ""  # nothing is known of what is not watched
    finally:
        for name in others:
            control_plane.remove_namespace(name)


async def test_the_process_ends_when_the_lease_is_lost_with_work_under_way(
    control_plane: ControlPlane, client: Client, namespace: str
):
    clock = PushedClock()
    async with alive(control_plane, config(namespace), "one", clock=clock) as life:
        await eventually(life.leading)
        await _hold_a_key(life)
        await client.patch(LEASES, namespace, "plimsoll-leader", {"spec": {"holderIdentity": "intruder"}})
        assert await asyncio.wait_for(life.task, PATIENCE_SECONDS) == ExitCode.LEADERSHIP_LOST


async def test_an_idle_process_that_loses_the_lease_becomes_a_standby(
    control_plane: ControlPlane, client: Client, namespace: str
):
    async with alive(control_plane, config(namespace), "one") as life:
        await eventually(life.leading)
        await eventually(lambda: all(reconciler.queue.idle for reconciler in life.operator.reconcilers))
        await client.patch(LEASES, namespace, "plimsoll-leader", {"spec": {"holderIdentity": "intruder"}})
        await eventually(lambda: not life.leading())
        assert not life.task.done()
        lease = await client.get(LEASES, namespace, "plimsoll-leader")
        await client.delete(LEASES, namespace, "plimsoll-leader", uid=lease.uid)
        await eventually(life.leading)


async def test_what_changed_while_the_lease_had_run_out_is_looked_at_once_it_is_renewed(
    control_plane: ControlPlane, namespace: str
):
    clock = PushedClock()
    async with alive(control_plane, config(namespace), "one", clock=clock) as life:
        await eventually(life.leading)
        await eventually(lambda: life.operator.not_ready() is None)
        # As after SIGSTOP and SIGCONT: the change is heard before the lease is renewed.
        clock.monotonic_offset += ELECTION.renew_deadline.total_seconds() + 1
        life.operator.view[DEPLOYMENTS].put(build.deployment("unheard", namespace=namespace))
        assert not life.operator.leading
        await eventually(lambda: Key("Deployment", namespace, "unheard") in life.controller.asked)


class Evicting(Scripted):
    """One who may evict: what was disrupted before is read when its tenure begins."""

    permissions: ClassVar[tuple[Permission, ...]] = (Permission("", "pods/eviction", "create"),)


async def test_what_is_read_for_a_tenure_that_is_over_does_not_count_for_the_next(
    control_plane: ControlPlane, client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
):
    reading, go_on = asyncio.Event(), asyncio.Event()
    recall = DisruptionStore.recall

    async def slowly(memory: DisruptionStore) -> tuple[Disruption, ...]:
        read = await recall(memory)
        reading.set()
        await go_on.wait()
        return read

    monkeypatch.setattr(DisruptionStore, "recall", slowly)
    async with alive(control_plane, config(namespace), "one", controller=Evicting()) as life:
        await reading.wait()
        await client.patch(LEASES, namespace, "plimsoll-leader", {"spec": {"holderIdentity": "intruder"}})
        await eventually(lambda: not life.leading())
        go_on.set()
        await asyncio.sleep(0.1)
        assert not life.operator._ledger._recalled


async def test_a_stop_lets_the_key_in_hand_finish_and_gives_the_lease_back(
    control_plane: ControlPlane, client: Client, namespace: str
):
    async with alive(control_plane, config(namespace), "one") as life:
        await eventually(life.leading)
        release = await _hold_a_key(life)
        life.stop.set()
        await asyncio.sleep(0.2)
        assert not life.task.done()
        release()
        assert await asyncio.wait_for(life.task, PATIENCE_SECONDS) == ExitCode.STOPPED
        lease = await client.get(LEASES, namespace, "plimsoll-leader")
        assert not lease.spec.holder_identity


async def test_a_view_of_which_nothing_is_heard_makes_the_process_unready_and_then_ends_it(
    control_plane: ControlPlane, namespace: str
):
    clock = PushedClock()
    settings = config(
        namespace,
        kubernetes=Kubernetes(max_view_age=timedelta(minutes=5), exit_view_age=timedelta(minutes=15)),
    )
    async with alive(control_plane, settings, "one", clock=clock) as life:
        await eventually(lambda: life.operator.not_ready() is None)
        clock.monotonic_offset += 400  # seconds of silence, all at once
        reason = life.operator.not_ready()
        assert reason is not None
        assert re.search(r"no data about \w+ from the API server for 4\d\d s", reason)
        clock.push(900)
        assert await asyncio.wait_for(life.task, PATIENCE_SECONDS) == ExitCode.VIEW_TOO_OLD


async def test_a_part_that_fails_ends_the_process_with_its_error(control_plane: ControlPlane, namespace: str):
    async with alive(control_plane, config(namespace), "one") as life:
        await eventually(life.leading)
        (reconciler,) = life.operator.reconcilers
        reconciler.queue.done = _broken  # type: ignore[method-assign, assignment]
        reconciler.queue.add(Key("Deployment", namespace, "any"))
        assert await asyncio.wait_for(life.task, PATIENCE_SECONDS) == ExitCode.UNEXPECTED_ERROR


def _broken(_: Key) -> None:
    raise RuntimeError("a bug in the runtime itself")


async def _hold_a_key(life: Life) -> Callable[[], None]:
    """Work that stays under way until it is released."""
    (reconciler,) = life.operator.reconcilers
    await eventually(lambda: reconciler.queue.idle)
    gate = asyncio.Event()
    reconcile = reconciler._reconcile

    async def held(key: Key) -> None:
        await gate.wait()
        await reconcile(key)

    reconciler._reconcile = held  # type: ignore[method-assign]
    reconciler.enqueue_all()
    reconciler.queue.add(Key("Deployment", "default", "held"))
    await eventually(lambda: reconciler.queue.handling)
    return gate.set
