"""`plimsoll allocation restore`: write back what a container holds whose status was lost."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from typing import Any

import click

from plimsoll.cli.allocation.cluster import run_on_cluster
from plimsoll.cli.connection import cluster_options
from plimsoll.config import Config
from plimsoll.controllers.allocation.container_nodes import WEKA_CONTAINERS
from plimsoll.controllers.allocation.inventory import InvalidInventoryError, read_inventory
from plimsoll.controllers.allocation.lease import lease_name
from plimsoll.controllers.allocation.plan import Given
from plimsoll.controllers.allocation.protocol import step
from plimsoll.controllers.allocation.session import Ended, Opening, State, Task
from plimsoll.controllers.allocation.types import VirtualDrive, WekaContainer
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import AlreadyExists, Ambiguous, Conflict, KubeError, NotFound
from plimsoll.kube.types.resources import LEASES, NODES, PODS
from plimsoll.runtime.clock import RealClock
from plimsoll.runtime.decision import Create, Patch, Reason, Ref, Transaction
from plimsoll.runtime.transaction import Answer, Write, converse


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


@click.command(
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
@cluster_options
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

    click.echo(run_on_cluster(run, options))


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
        conversation = Transaction(ref, Opening(task), step, why, ended=ended.append)
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
        if end.status != "done" or not now.allocated:
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
