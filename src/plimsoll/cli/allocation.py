"""`plimsoll allocation`: look at what containers hold, clean up after the former scheme, and bring back what was lost."""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
from rich.console import Console
from rich.table import Table

from plimsoll.allocation.containers import VirtualDrive, WekaContainer
from plimsoll.allocation.inventory import InvalidInventoryError, read_inventory
from plimsoll.allocation.leases import lease_name
from plimsoll.allocation.migration import Migration, compare
from plimsoll.allocation.overview import NodeOverview, overview
from plimsoll.allocation.places import WEKA_CONTAINERS, nodes_of
from plimsoll.allocation.plan import Given
from plimsoll.allocation.protocol import step
from plimsoll.allocation.tenure import Ended, Opening, State, Task
from plimsoll.cli.configuration import config_option, effective, set_option
from plimsoll.clock import RealClock
from plimsoll.config import Config
from plimsoll.config.load import Flag
from plimsoll.conversation import Answer, Write, converse
from plimsoll.decision import Converse, Create, Patch, Reason, Ref
from plimsoll.kube.client import Client
from plimsoll.kube.errors import AlreadyExists, Ambiguous, Conflict, KubeError, NotFound
from plimsoll.kube.resources import LEASES, NODES, PODS
from plimsoll.kube.types import Node
from plimsoll.metrics import Metrics
from plimsoll.operator import connect

T = TypeVar("T")
Options = dict[str, Any]

_kubeconfig = click.option(
    "--kubeconfig", metavar="FILE", type=click.Path(path_type=Path), help="The kubeconfig to use."
)
_context = click.option("--context", metavar="NAME", help="The kubeconfig's context to use.")


def _cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (_context, _kubeconfig, set_option, config_option):
        command = option(command)
    return command


@click.group(name="allocation")
def allocation() -> None:
    """Drives and ports that storage containers hold."""


# ── show ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@allocation.command(
    epilog="""\b
Examples:
  plimsoll allocation show
  plimsoll allocation show --node storage-3 -o json
"""
)
@click.option("--node", metavar="NAME", help="Only this node.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@_cluster_options
def show(*, node: str | None, output: str, **options: Any) -> None:
    """Print who holds what, what is free, blocked and in conflict, read live."""

    async def look(client: Client, config: Config) -> list[NodeOverview]:
        nodes, containers = await _read(client)
        ports = 60 if config.allocation.reduced_ports else 100
        names = {name for one in containers for name in nodes_of(one)}
        names |= {one.name for one in nodes.values() if any(key.startswith("weka.io/") for key in one.annotations)}
        wanted = [node] if node else sorted(names)
        return [overview(name, nodes.get(name), containers, ports) for name in wanted]

    found = _run(look, options)
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return
    console = Console(width=None if sys.stdout.isatty() else 140)
    for one in found:
        console.print(_table(one))
        for line in (*one.conflicts, *one.problems):
            console.print(f"  [red]{line}[/red]", highlight=False)
    if not found:
        click.echo("no node has drives, and no container names a node")


def _table(one: NodeOverview) -> Table:
    title = f"{one.node}{'' if one.exists else ' (no such node)'}"
    free = f"free: {', '.join(one.free_drives) or 'no drives'}"
    shared = "".join(f"; {room.serial} {room.free_gib} of {room.capacity_gib} GiB" for room in one.shared)
    blocked = f"; blocked: {', '.join(one.blocked_drives)}" if one.blocked_drives else ""
    waiting = f"; waiting: {', '.join(one.waiting)}" if one.waiting else ""
    table = Table(
        title=title, title_justify="left", caption=f"{free}{shared}{blocked}{waiting}", caption_justify="left"
    )
    for column in ("container", "state", "drives", "ports"):
        table.add_column(column)
    for holder in one.holders:
        drives = [*holder.drives, *(f"{serial} ({size} GiB)" for serial, size in holder.shared_gib.items())]
        table.add_row(holder.container, holder.state, ", ".join(drives), ", ".join(holder.ports))
    return table


# ── migrate ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@allocation.command(
    epilog="""\b
Examples:
  plimsoll allocation migrate --dry-run
  plimsoll allocation migrate --apply --node storage-3
"""
)
@click.option("--dry-run/--apply", "dry_run", default=True, show_default="--dry-run", help="Only tell, or remove, too.")
@click.option("--node", metavar="NAME", help="Only this node.")
@_cluster_options
def migrate(*, dry_run: bool, node: str | None, **options: Any) -> None:
    """Compare the claims that the former scheme left on nodes with what status says, and remove those that are safe to lose.

    An annotation is removed only if all of its claims are in their owner's status, too, or their owner is gone. Exit code 1:
    some differ, and were kept.
    """

    async def run(client: Client, _: Config) -> tuple[list[Migration], list[str]]:
        nodes, containers = await _read(client)
        chosen = [one for name, one in sorted(nodes.items()) if node in (None, name)]
        found = [migration for one in chosen if (migration := compare(one, containers)) is not None]
        failed = []
        for migration in found if not dry_run else ():
            target = nodes[migration.node]
            if not migration.removable:
                continue
            try:
                await client.patch(
                    NODES, "", target.name, migration.patch, uid=target.uid,
                    resource_version=target.metadata.resource_version,
                )  # fmt: skip
            except KubeError as error:
                failed.append(f"{target.name}: nothing was removed: {error}")
        return found, failed

    found, failed = _run(run, options)
    kept = False
    for migration in found:
        click.echo(migration.node)
        for claim in migration.claims:
            detail = f": {claim.detail}" if claim.detail else ""
            click.echo(f"  {claim.annotation} {claim.what} of {claim.owner}: {claim.verdict}{detail}")
        for sentence in migration.unreadable:
            click.echo(f"  {sentence}")
        verb = "would be removed" if dry_run else "removed"
        click.echo(f"  {verb}: {', '.join(migration.removable) or 'nothing'}")
        kept = kept or bool(migration.unreadable) or any(claim.verdict == "differs" for claim in migration.claims)
    for sentence in failed:
        click.echo(sentence, err=True)
    click.echo(f"{len(found)} nodes have claims of the former scheme")
    if failed or kept:
        raise SystemExit(1)


# ── restore ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _serials(_: click.Context, __: click.Parameter, text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _virtual(_: click.Context, parameter: click.Parameter, texts: Sequence[str]) -> tuple[VirtualDrive, ...]:
    drives = []
    for text in texts:
        parts = text.split(",")
        if len(parts) not in (3, 4) or not parts[2].isdecimal():
            message = f'"{text}"; write it like --virtual-drive VIRTUAL-UUID,PHYSICAL-UUID,GIB,SERIAL'
            raise click.BadParameter(message, param=parameter)
        drives.append(VirtualDrive(parts[0], parts[1], int(parts[2]), parts[3] if len(parts) == 4 else ""))
    return tuple(drives)


@allocation.command(
    epilog="""\b
Examples:
  plimsoll allocation restore default/backend-0 --drives S1,S2 --weka-port 35000 --agent-port 35300
"""
)
@click.argument("container", metavar="NAMESPACE/NAME")
@click.option("--drives", default="", callback=_serials, metavar="SERIAL,…", help="The whole drives that it uses.")
@click.option("--virtual-drive", "virtual", multiple=True, callback=_virtual, metavar="UUID,UUID,GIB[,SERIAL]",
              help="A part of a shared drive: virtual UUID, physical UUID, GiB, serial. Repeatable.")  # fmt: skip
@click.option("--weka-port", type=click.IntRange(0, 65535), default=0, help="The first of its ports in a row.")
@click.option("--ports", type=click.Choice(["60", "100"]), default="100", show_default=True, help="How many in a row.")
@click.option("--agent-port", type=click.IntRange(0, 65535), default=0, help="The port of its agent.")
@click.option("--node", metavar="NAME", help="Where it runs. [default: where its pod is]")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_cluster_options
def restore(
    *,
    container: str,
    drives: tuple[str, ...],
    virtual: tuple[VirtualDrive, ...],
    weka_port: int,
    ports: str,
    agent_port: int,
    node: str | None,
    yes: bool,
    **options: Any,
) -> None:
    """Write back what a container holds whose status was lost, as you confirm it.

    It takes the node's lease like every other allocation, and refuses what another container holds.
    """
    namespace, slash, name = container.partition("/")
    if not (namespace and slash and name):
        raise click.BadParameter(f'"{container}"; write it like default/backend-0', param_hint="NAMESPACE/NAME")
    if not (drives or virtual or weka_port or agent_port):
        raise click.UsageError("say what it holds: --drives, --virtual-drive, --weka-port, --agent-port")

    async def run(client: Client, config: Config) -> str:
        found = await client.get(WEKA_CONTAINERS, namespace, name)
        where = node or await _node_of(client, found)
        if found.home not in ("", where):
            raise click.ClickException(
                f"{container} names node {found.home} and runs on {where}; mend its nodeAffinity first"
            )
        given = Given(found.uid, drives, virtual, weka_port, int(ports) if weka_port else 0, agent_port)
        if not yes:
            click.confirm(f"{container} on node {where} holds {_told(given)}. Write that?", abort=True, err=True)
        return await _restore(client, config, found, where, given)

    click.echo(_run(run, options))


def _told(given: Given) -> str:
    parts = [f"drives {', '.join(given.drives)}"] if given.drives else []
    parts += [f"{drive.capacity_gib} GiB of {drive.physical_uuid}" for drive in given.virtual_drives]
    if given.weka_port:
        parts.append(f"ports {given.weka_port}-{given.weka_port + given.ports - 1}")
    if given.agent_port:
        parts.append(f"agent port {given.agent_port}")
    return ", ".join(parts)


async def _node_of(client: Client, container: WekaContainer) -> str:
    pods = (await client.list(PODS, container.namespace)).items
    for pod in pods:
        owner = pod.metadata.controller
        if owner is not None and owner.uid == container.uid and pod.spec.node_name:
            return pod.spec.node_name
    if container.home:
        return container.home
    raise click.ClickException(f"{container.title} has no pod on a node and names none; say where it runs: --node NAME")


async def _restore(client: Client, config: Config, container: WekaContainer, node: str, given: Given) -> str:
    settings = config.allocation
    try:
        inventory = read_inventory(await client.get(NODES, "", node))
    except InvalidInventoryError:
        inventory = None  # what is there does not matter: it is said what is held
    ended: list[State] = []
    sighting = None
    process = uuid.uuid4().hex
    while True:
        task = Task(
            node, inventory, settings.namespace, lease_name(node), container.title, process,
            sighting=sighting, given=given,
        )  # fmt: skip
        ref = Ref(LEASES, settings.namespace, task.lease_name, "")
        why = Reason("Restore", f"an administrator says what {container.title} holds")
        conversation = Converse(ref, Opening(task), step, why, ended=ended.append)
        end = await converse(conversation, client, lambda writes: _write(client, writes), RealClock())
        last = ended[-1]
        if end.blocker is not None and end.blocker.code == "LeaseHeld" and isinstance(last, Ended):
            sighting = last.sighting
            click.echo(f"{end.detail}; waiting", err=True)
            await asyncio.sleep(task.times.retry_period.total_seconds())
            continue
        if isinstance(last, Ended) and last.refusals:
            raise click.ClickException(f"{container.title} was not restored: {last.refusals[0].shortage.message}")
        now = await client.get(WEKA_CONTAINERS, container.namespace, container.name)
        if end.word != "done" or not now.allocated:
            raise click.ClickException(f"{container.title} was not restored: {end.detail or 'it is gone'}; try again")
        return f"{container.title} holds {_told(given)} on node {node}"


async def _write(client: Client, writes: Sequence[Write]) -> tuple[Answer, ...]:
    return tuple([await _one(client, write) for write in writes])


async def _one(client: Client, write: Write) -> Answer:
    """An administrator's own write: no leadership is asked for, all preconditions are."""
    try:
        match write:
            case Create():
                body = {**write.body, "metadata": {**write.body.get("metadata", {}), "name": write.name}}
                return Answer("done", await client.create(write.resource, write.namespace, body))
            case Patch(target=target):
                changed = await client.patch(
                    target.resource, target.namespace, target.name, write.body, uid=target.uid,
                    resource_version=target.resource_version, subresource=write.subresource,
                )  # fmt: skip
                return Answer("done", changed)
            case _:
                raise TypeError(f"nothing is deleted here: {write}")
    except (AlreadyExists, Conflict) as error:
        return Answer("conflict", None, str(error))
    except NotFound as error:
        return Answer("gone", None, str(error))
    except Ambiguous as error:
        return Answer("unknown", None, str(error))
    except KubeError as error:
        return Answer("failed", None, str(error))


# ── the cluster ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def _read(client: Client) -> tuple[dict[str, Node], tuple[WekaContainer, ...]]:
    nodes = (await client.list(NODES)).items
    return {node.name: node for node in nodes}, (await client.list(WEKA_CONTAINERS)).items


def _run(work: Callable[[Client, Config], Awaitable[T]], options: Options) -> T:
    """Do something with the cluster that the options point to; what goes wrong there is one sentence, not a traceback."""
    kubeconfig, context = options.pop("kubeconfig"), options.pop("context")
    settings: Sequence[Flag] = options.pop("settings")
    config = effective(
        dry_run=False, controllers=None, settings=settings, log_format=None, log_level=None, **options
    ).config

    async def go() -> T:
        async with connect(config, Metrics(), kubeconfig=kubeconfig, context=context) as client:
            return await work(client, config)

    try:
        return asyncio.run(go())
    except KubeError as error:
        raise click.ClickException(str(error)) from error
