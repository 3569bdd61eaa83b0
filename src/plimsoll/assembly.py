"""Which controllers there are, with their settings, and the operator opened on its cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from plimsoll.clock import RealClock
from plimsoll.config import Config
from plimsoll.decision import Controller
from plimsoll.deletion_cost.controller import DeletionCostController
from plimsoll.deletion_cost.spec import DeletionCostSettings
from plimsoll.kube.errors import KubeError
from plimsoll.metrics import Metrics
from plimsoll.operator import Operator, connect, identity


class ClusterRefusedError(Exception):
    """At the start the cluster could not be reached, or refused the credentials."""


class UnknownControllerError(Exception):
    """A controller is asked for that this version does not have."""


def controllers(config: Config) -> tuple[Controller, ...]:
    """The controllers that exist and are switched on, with their settings."""
    cost = config.controllers.deletion_cost
    makers: dict[str, Callable[[], Controller]] = {
        DeletionCostController.name: lambda: DeletionCostController(
            DeletionCostSettings(
                adopt_existing=cost.adopt_existing,
                ceiling=cost.ceiling,
                algorithms=cost.algorithms,
                max_rewrites_per_minute=cost.max_rewrites_per_minute,
            )
        ),
    }
    wanted = config.controllers.enabled or tuple(makers)
    if missing := [name for name in wanted if name not in makers]:
        raise UnknownControllerError(
            f"controllers.enabled names {', '.join(missing)}, which this version does not have; it has: {', '.join(makers)}"
        )
    return tuple(makers[name]() for name in wanted)


@asynccontextmanager
async def opened(config: Config, *, kubeconfig: Path | None, context: str | None) -> AsyncIterator[Operator]:
    """The operator on its cluster, once that has answered; ClusterRefusedError if it does not."""
    metrics = Metrics()
    chosen = controllers(config)
    try:
        client = connect(config, metrics, kubeconfig=kubeconfig, context=context)
    except KubeError as error:
        raise ClusterRefusedError(str(error)) from error
    async with client:
        try:
            await client.read("/version")
        except KubeError as error:
            raise ClusterRefusedError(str(error)) from error
        yield Operator(config, client, chosen, clock=RealClock(), metrics=metrics, name=identity())
