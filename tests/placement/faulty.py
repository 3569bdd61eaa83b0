"""The operator with the placement controller behind the proxy of `tests/faults`, and a workload for it to move.

New pods are given their class by another replica's webhook, which no fault strikes: what happens without one is tested apart.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from pathlib import Path

from msgspec.structs import replace

from plimsoll.config import Config, Kubernetes, LeaderElectionConfig, Webhook
from plimsoll.controllers.build import placement_settings
from plimsoll.controllers.placement.controller import PlacementController
from plimsoll.controllers.placement.spec import SPOT_PERCENTAGE
from plimsoll.kube.client.client import Client
from plimsoll.runtime.decision import Controller
from tests.faults import invariants
from tests.faults.history import History
from tests.faults.life import Life, Lives
from tests.faults.proxy import Link, Proxy
from tests.faults.record import Record
from tests.faults.rules import FaultSource, Rules
from tests.faults.upstream import Direct, Upstream
from tests.placement.live import Workload, asking, config, is_ready, operating, pod_states
from tests.placement.webhook_cluster import empty
from tests.rbac.everywhere import kubeconfig_of_the_operator
from tools.controlplane.cluster import ControlPlane

REPLICAS, MINIMUM = 6, 3
TOLD_APART = "plimsoll.dev/story"  # a label of the namespaces that the webhook is asked about
SHORT_LEASE = LeaderElectionConfig(
    lease_duration=timedelta(seconds=4), renew_deadline=timedelta(seconds=3), retry_period=timedelta(milliseconds=200)
)
PATIENCE_SECONDS = 240.0

NewStory = Callable[..., AbstractAsyncContextManager["Story"]]


def settings_in(home: str, namespace: str, *, election: LeaderElectionConfig | None = None) -> Config:
    made = config(home, namespace)
    return replace(
        made,
        operator=replace(made.operator, leader_election=election or LeaderElectionConfig(enabled=False)),
        webhook=Webhook(mode="service"),  # somebody else's
        kubernetes=Kubernetes(qps=500, burst=500, request_timeout=timedelta(seconds=10)),
    )


def controllers_of(installation: str, settings: Config) -> tuple[Controller, ...]:
    """Of one whose pods another replica of that installation admits."""
    return (PlacementController(replace(placement_settings(settings), installation=installation)),)


class Story:
    """Six on-demand replicas, three of which should be on spot and three must not, and every revision of their pods."""

    def __init__(
        self,
        namespace: str,
        home: str,
        web: Workload,
        *,
        installation: str,
        direct: Direct,
        proxy: Proxy,
        rules: Rules,
        history: History,
        on_demand: set[str],
    ) -> None:
        self.namespace, self.home, self.web, self.direct, self.proxy = namespace, home, web, direct, proxy
        self.installation, self.rules, self.history, self.on_demand = installation, rules, history, on_demand
        self.record: Record = proxy.record

    def settings(self, *, election: LeaderElectionConfig | None = None) -> Config:
        return settings_in(self.home, self.namespace, election=election)

    async def life(self, name: str = "a", settings: Config | None = None) -> Life:
        return self._life(await self.proxy.link(name), settings or self.settings())

    def lives(self, name: str = "a", settings: Config | None = None) -> Lives[Life]:
        """Started anew whenever it ends."""
        chosen = settings or self.settings()
        return Lives(self.proxy, name, lambda link: self._life(link, chosen))

    def _life(self, link: Link, settings: Config) -> Life:
        return Life(link, settings, controllers_of(self.installation, settings))

    async def begin(self) -> None:
        await self.web.annotate({SPOT_PERCENTAGE: "100%"})

    async def settles(self, life: Life) -> None:
        """L1 and L2: three replicas have moved, and nothing more is written however often one looks."""
        await self.web.settled(3, 3, seconds=PATIENCE_SECONDS)
        await life.look()
        mark = len(self.record)
        await life.look()
        await life.look()
        assert self.record.works(since=mark) == [], "it goes on writing"
        await self.web.settled(3, 3)

    async def was_safe(self, *, moves: int | None = 3) -> None:
        """S4, S8, S11, S13 and L3, over all that was sent and all that the store ever held."""
        await self.history.caught_up(seconds=120)
        invariants.destructive_acts_name_a_uid(self.record)
        invariants.evicted_once(self.record)
        invariants.listed_before_destroying(self.record, ("pods", "nodes"))
        for revision, pods in pod_states(self.history, self.web.name):
            ready = [pod["spec"]["nodeName"] for pod in pods if is_ready(pod)]
            assert len(ready) >= REPLICAS - 1, f"S4: {len(ready)} of {REPLICAS} left at {revision}"
            kept = sum(node in self.on_demand for node in ready)
            assert kept >= MINIMUM, f"S13: {kept} on-demand replicas left at {revision}"
        applied = [one for one in invariants.evictions(self.record) if one.applied]
        assert moves is None or len(applied) == moves, f"{len(applied)} moves, {moves} were needed"


@asynccontextmanager
async def stories(
    control_plane: ControlPlane, client: Client, home: str, on_demand: set[str], directory: Path
) -> AsyncIterator[NewStory]:
    """Stories side by side, with one webhook for all of them."""
    label = {TOLD_APART: home}
    selector = tuple(f"{key}={value}" for key, value in label.items())
    observing = config(home, "", namespace_selector=selector, max_migrations=0)
    probed = control_plane.add_namespace("probe", label)
    upstream = Upstream.from_kubeconfig(control_plane.kubeconfig)

    @asynccontextmanager
    async def new(*sources: FaultSource) -> AsyncIterator[Story]:
        namespace, own = control_plane.add_namespace("story", label), control_plane.add_namespace("home")
        place = directory / namespace
        place.mkdir()
        record, rules = Record(), Rules()
        account = kubeconfig_of_the_operator(control_plane, settings_in(own, namespace, election=SHORT_LEASE))
        try:
            web = await Workload(client, namespace, "web").create(REPLICAS, asking(0, MINIMUM))
            await web.settled(0, REPLICAS, seconds=PATIENCE_SECONDS)
            async with (
                Direct(upstream) as direct,
                Proxy(Upstream.from_kubeconfig(account), record, [rules, *sources], place) as proxy,
                History(direct, [f"/api/v1/namespaces/{namespace}/pods"]) as history,
            ):
                yield Story(
                    namespace, own, web,
                    installation=home, direct=direct, proxy=proxy, rules=rules, history=history, on_demand=on_demand,
                )  # fmt: skip
        except BaseException as error:
            error.add_note(f"requests in {namespace}:\n{record}")
            raise
        finally:
            empty(control_plane, namespace)
            control_plane.remove_namespace(namespace)
            control_plane.remove_namespace(own)

    try:
        async with operating(control_plane, probed, observing, "webhook"):
            yield new
    finally:
        control_plane.remove_namespace(probed)
