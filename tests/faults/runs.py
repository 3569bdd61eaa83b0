"""Runs of the real operator with the example controller: in this process, to be crashed, watched and asked."""

from __future__ import annotations

from datetime import timedelta

from plimsoll.config import (
    Config,
    Controllers,
    DisruptionLimitsConfig,
    Kubernetes,
    LeaderElectionConfig,
    OperatorConfig,
)
from plimsoll.runtime.clock import Clock
from tests.faults.example import ExampleController
from tests.faults.life import Life, Lives
from tests.faults.proxy import Proxy

# Short, so that a failover takes seconds; long enough that a busy machine does not lose the lease by itself.
SHORT_LEASE = LeaderElectionConfig(
    lease_duration=timedelta(seconds=4), renew_deadline=timedelta(seconds=3), retry_period=timedelta(milliseconds=200)
)
NO_ELECTION = LeaderElectionConfig(enabled=False)


def config(
    namespace: str,
    *,
    election: LeaderElectionConfig = NO_ELECTION,
    limits: DisruptionLimitsConfig | None = None,
    kubernetes: Kubernetes | None = None,
) -> Config:
    return Config(
        operator=OperatorConfig(
            namespace=namespace,
            audit_log="",
            leader_election=election,
            disruption_limits=limits or DisruptionLimitsConfig(),
        ),
        controllers=Controllers(),
        kubernetes=kubernetes or Kubernetes(qps=500, burst=500, request_timeout=timedelta(seconds=10)),
    )


class Run(Life):
    """A life with the example controller."""

    @classmethod
    async def start(
        cls, proxy: Proxy, name: str, settings: Config, *, clock: Clock | None = None, last_first: bool = False
    ) -> Run:
        controller = ExampleController(settings.operator.namespace, last_first=last_first)
        return cls(await proxy.link(name), settings, [controller], clock=clock)


def supervised(proxy: Proxy, name: str, settings: Config) -> Lives[Life]:
    """The operator with the example controller, started anew whenever it ends."""
    return Lives(proxy, name, lambda link: Life(link, settings, [ExampleController(settings.operator.namespace)]))
