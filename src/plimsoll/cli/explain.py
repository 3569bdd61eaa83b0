"""`plimsoll explain`: what the operator would do about a workload now, and why, from the same decisions that it acts on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import yaml

from plimsoll.cli.configuration import config_option, controllers_option, effective, set_option
from plimsoll.cli.controllers import controllers_for
from plimsoll.cli.manifest_files import FaultyFileError, objects
from plimsoll.clock import RealClock
from plimsoll.config import Config
from plimsoll.decision import Controller, Decision
from plimsoll.deletion_cost.controller import DeletionCostDecision
from plimsoll.kube.errors import KubeError
from plimsoll.kube.resources import DEPLOYMENTS, STATEFULSETS, Key, Resource
from plimsoll.kube.store import View
from plimsoll.metrics import Metrics
from plimsoll.operator import connect, watched_by
from plimsoll.placement.controller import PlacementDecision

_KINDS = {
    **dict.fromkeys(("deployment", "deployments", "deploy"), DEPLOYMENTS),
    **dict.fromkeys(("statefulset", "statefulsets", "sts"), STATEFULSETS),
}
_EXPLAINED: Mapping[Resource[Any], tuple[str, ...]] = {
    DEPLOYMENTS: ("placement", "deletion-cost"),
    STATEFULSETS: ("placement",),
}


@click.command(
    epilog="""\b
Examples:
  plimsoll explain deployment/web
  plimsoll explain sts/db --namespace shop -o json
  plimsoll explain deployment/web -f web.yaml -f nodes.yaml     without a cluster
"""
)
@click.argument("what", metavar="KIND/NAME")
@click.option(
    "--namespace", "-n", metavar="NAME", default="default", help="The workload's namespace. [default: default]"
)
@click.option(
    "--file",
    "-f",
    "files",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Look at the objects of YAML files instead of a cluster; may be repeated.",
)
@click.option("--output", "-o", "form", type=click.Choice(["text", "json", "yaml"]), default="text", help="The form.")
@click.option("--kubeconfig", metavar="FILE", type=click.Path(path_type=Path), help="The kubeconfig to use.")
@click.option("--context", metavar="NAME", help="The kubeconfig's context to use.")
@controllers_option
@set_option
@config_option
def explain(  # noqa: PLR0917 - one for each option
    what: str,
    namespace: str,
    files: Sequence[Path],
    form: str,
    kubeconfig: Path | None,
    context: str | None,
    **options: Any,
) -> None:
    """Tell what would be done about a Deployment or StatefulSet now, and why. Nothing is written."""
    resource, name = _read(what)
    config = effective(dry_run=True, log_format=None, log_level=None, **options).config
    controllers = [one for one in controllers_for(config) if one.name in _EXPLAINED[resource]]
    if not controllers:
        raise click.ClickException(f"no controller that is switched on decides about a {resource.kind}")
    try:
        view = (
            _view_of_files(files, controllers) if files else _view_of_cluster(config, controllers, kubeconfig, context)
        )
    except (KubeError, FaultyFileError) as error:
        raise click.ClickException(str(error)) from None
    if view[resource].get(namespace, name) is None:
        raise click.ClickException(f"there is no {resource.kind} {namespace}/{name}")
    key = Key(resource.kind, namespace, name)
    now = RealClock().now()
    told = explanation(key, {one.name: one.decide(key, view, now) for one in controllers})
    if form == "json":
        click.echo(json.dumps(told, indent=2, ensure_ascii=False))
    elif form == "yaml":
        click.echo(yaml.safe_dump(told, sort_keys=False, allow_unicode=True), nl=False)
    else:
        click.echo("\n".join(_lines(told)))


def _read(what: str) -> tuple[Resource[Any], str]:
    kind, slash, name = what.partition("/")
    resource = _KINDS.get(kind.lower())
    if resource is None or not slash or not name:
        raise click.UsageError(f'"{what}" is no workload; write it like deployment/web or statefulset/db')
    return resource, name


def _view_of_cluster(
    config: Config, controllers: Sequence[Controller], kubeconfig: Path | None, context: str | None
) -> View:
    async def look() -> View:
        async with connect(config, Metrics(), kubeconfig=kubeconfig, context=context) as client:
            kinds = watched_by(controllers)
            listings = await asyncio.gather(*(client.list(kind, kind.watched_in) for kind in kinds))
        return View.of({kind: listing.items for kind, listing in zip(kinds, listings, strict=True)})

    return asyncio.run(look())


def _view_of_files(files: Sequence[Path], controllers: Sequence[Controller]) -> View:
    kinds = watched_by(controllers)
    held: dict[Resource[Any], list[Any]] = {kind: [] for kind in (*kinds, DEPLOYMENTS, STATEFULSETS)}
    for file in files:
        for found in objects(file, held):
            held[found.resource].append(found.object)
    return View.of(held)


# ── what is told ─────────────────────────────────────────────────────────────────────────────────────────────────────


def explanation(key: Key, decisions: Mapping[str, Decision]) -> dict[str, Any]:
    """One document over all decisions about a workload; what no controller knows is left out."""
    placed = decisions.get("placement")
    told: dict[str, Any] = {"kind": key.kind, "namespace": key.namespace, "name": key.name}
    if isinstance(placed, PlacementDecision) and placed.target is not None and placed.current is not None:
        told["target"] = {"spot": placed.target.spot, "onDemand": placed.target.on_demand}
        told["current"] = {"spot": placed.current.spot, "onDemand": placed.current.on_demand}
        told["action"] = placed.action.value
        told["moving"] = list(placed.moving)
    else:
        told |= {"target": None, "current": None, "action": "none", "moving": []}
    told["blockers"] = [
        {"controller": name, "code": one.code, "message": one.message, "until": _moment(one.until)}
        for name, decision in decisions.items()
        for one in decision.blockers
    ]
    told["errors"] = [
        {"controller": name, "code": one.code, "message": one.message}
        for name, decision in decisions.items()
        for one in decision.problems
    ]
    told["decisions"] = {name: _decision(decision) for name, decision in decisions.items()}
    return told


def _decision(decision: Decision) -> dict[str, Any]:
    told: dict[str, Any] = {
        "reason": {"code": decision.reason.code, "message": decision.reason.message},
        "actions": [{"action": type(one).__name__, "why": one.why.message} for one in decision.actions],
        "lookAgainSeconds": decision.look_again.total_seconds() if decision.look_again is not None else None,
    }
    if isinstance(decision, DeletionCostDecision):
        told["deletionOrder"] = [
            {"replicaSet": order.replica_set, "pods": [[one.pod, one.zone, one.cost] for one in order.departures]}
            for order in decision.orders
        ]
    return told


def _moment(moment: datetime | None) -> str | None:
    return moment.isoformat().replace("+00:00", "Z") if moment is not None else None


def _lines(told: Mapping[str, Any]) -> list[str]:
    lines = [f"{told['kind']} {told['namespace']}/{told['name']}"]
    if told["target"] is not None:
        target, current = told["target"], told["current"]
        lines.append(f"  target   {target['spot']} on spot, {target['onDemand']} on-demand")
        lines.append(f"  current  {current['spot']} on spot, {current['onDemand']} on-demand")
        lines.append(f"  action   {told['action']}")
    lines += [f"  error    {one['code']}: {one['message']}" for one in told["errors"]]
    for one in told["blockers"]:
        until = f" (until {one['until']})" if one["until"] else ""
        lines.append(f"  blocked  {one['code']}: {one['message']}{until}")
    for name, decision in told["decisions"].items():
        lines.append(f"  {name}: {decision['reason']['code']}: {decision['reason']['message']}")
        lines += [f"    {one['action']}: {one['why']}" for one in decision["actions"]]
        for order in decision.get("deletionOrder", ()):
            pods = ", ".join(f"{pod} ({zone or 'no zone'})" for pod, zone, _ in order["pods"])
            lines.append(f"    {order['replicaSet']} gives up, in this order: {pods}")
    return lines
