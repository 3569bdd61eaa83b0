"""`plimsoll allocation restore`: write back the allocation of a container whose status was lost."""

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
from plimsoll.controllers.allocation.plan import RestoreRequest
from plimsoll.controllers.allocation.protocol import step
from plimsoll.controllers.allocation.session import Ended, Starting, State, Task
from plimsoll.controllers.allocation.types import VirtualDrive, WekaContainer
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import AlreadyExists, Ambiguous, Conflict, KubeError, NotFound
from plimsoll.kube.types.resources import LEASES, NODES, PODS
from plimsoll.runtime.clock import RealClock
from plimsoll.runtime.decision import Create, Patch, Reason, Ref, Transaction
from plimsoll.runtime.transaction import Write, WriteResult, run_transaction


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
@click.option("--drives", default="", callback=_serials, metavar="SERIAL,…", help="Serials of its whole drives.")
@click.option("--virtual-drive", "virtual", multiple=True, callback=_virtual, metavar="UUID,UUID,GIB[,SERIAL]",
              help="A virtual drive: virtual UUID, physical UUID, GiB, serial. Repeatable.")  # fmt: skip
@click.option("--weka-port", type=click.IntRange(0, 65535), default=0, help="First port of its range.")
@click.option("--ports", type=click.Choice(["60", "100"]), default="100", show_default=True, help="Size of the range.")
@click.option("--agent-port", type=click.IntRange(0, 65535), default=0, help="Port of its agent.")
@click.option("--node", metavar="NAME", help="The node. [default: the node of its pod]")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
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
    """Write back the allocation of a container whose status was lost.

    The command acquires the node's lease like every allocation, and refuses drives and ports of other containers.
    """
    namespace, slash, name = container.partition("/")
    if not (namespace and slash and name):
        raise click.BadParameter(f'"{container}"; write it like default/backend-0', param_hint="NAMESPACE/NAME")
    if not (drives or virtual or weka_port or agent_port):
        raise click.UsageError("name at least one of --drives, --virtual-drive, --weka-port, --agent-port")

    async def run(client: Client, config: Config) -> str:
        found = await client.get(WEKA_CONTAINERS, namespace, name)
        where = node or await _node_of(client, found)
        if found.node_name not in ("", where):
            raise click.ClickException(
                f"{container} has nodeAffinity {found.node_name} and runs on {where}; correct its nodeAffinity first"
            )
        restore = RestoreRequest(found.uid, drives, virtual, weka_port, int(ports) if weka_port else 0, agent_port)
        if not yes:
            click.confirm(f"{container} on node {where} holds {_text(restore)}. Write that?", abort=True, err=True)
        return await _restore(client, config, found, where, restore)

    click.echo(run_on_cluster(run, options))


def _text(restore: RestoreRequest) -> str:
    parts = [f"drives {', '.join(restore.drives)}"] if restore.drives else []
    parts += [f"{drive.capacity_gib} GiB of {drive.physical_uuid}" for drive in restore.virtual_drives]
    if restore.weka_port:
        parts.append(f"ports {restore.weka_port}-{restore.weka_port + restore.ports - 1}")
    if restore.agent_port:
        parts.append(f"agent port {restore.agent_port}")
    return ", ".join(parts)


async def _node_of(client: Client, container: WekaContainer) -> str:
    pods = (await client.list(PODS, container.namespace)).items
    for pod in pods:
        owner = pod.metadata.controller
        if owner is not None and owner.uid == container.uid and pod.spec.node_name:
            return pod.spec.node_name
    if container.node_name:
        return container.node_name
    raise click.ClickException(f"{container.title} has no pod and no nodeAffinity; name the node: --node NAME")


async def _restore(client: Client, config: Config, container: WekaContainer, node: str, restore: RestoreRequest) -> str:
    settings = config.allocation
    try:
        inventory = read_inventory(await client.get(NODES, "", node))
    except InvalidInventoryError:
        inventory = None  # not needed: the administrator names the drives
    ended: list[State] = []
    observation = None
    process = uuid.uuid4().hex
    while True:
        task = Task(
            node, inventory, settings.namespace, lease_name(node), container.title, process,
            observation=observation, restore=restore,
        )  # fmt: skip
        ref = Ref(LEASES, settings.namespace, task.lease_name, "")
        why = Reason("Restore", f"an administrator restores {container.title}")
        transaction = Transaction(ref, Starting(task), step, why, ended=ended.append)
        end = await run_transaction(transaction, client, lambda writes: _write(client, writes), RealClock())
        last = ended[-1]
        if end.blocker is not None and end.blocker.code == "LeaseHeld" and isinstance(last, Ended):
            observation = last.observation
            click.echo(f"{end.detail}; waiting", err=True)
            await asyncio.sleep(task.times.retry_period.total_seconds())
            continue
        if isinstance(last, Ended) and last.unserved:
            raise click.ClickException(f"{container.title} was not restored: {last.unserved[0].shortage.message}")
        now = await client.get(WEKA_CONTAINERS, container.namespace, container.name)
        if end.status != "done" or not now.allocated:
            raise click.ClickException(
                f"{container.title} was not restored: {end.detail or 'it was deleted'}; try again"
            )
        return f"{container.title} holds {_text(restore)} on node {node}"


async def _write(client: Client, writes: Sequence[Write]) -> tuple[WriteResult, ...]:
    return tuple([await _one(client, write) for write in writes])


async def _one(client: Client, write: Write) -> WriteResult:
    """Write with all preconditions, without leadership."""
    try:
        match write:
            case Create():
                body = {**write.body, "metadata": {**write.body.get("metadata", {}), "name": write.name}}
                return WriteResult("done", await client.create(write.resource, write.namespace, body))
            case Patch(target=target):
                changed = await client.patch(
                    target.resource, target.namespace, target.name, write.body, uid=target.uid,
                    resource_version=target.resource_version, subresource=write.subresource,
                )  # fmt: skip
                return WriteResult("done", changed)
            case _:
                raise TypeError(f"nothing is deleted here: {write}")
    except (AlreadyExists, Conflict) as error:
        return WriteResult("conflict", None, str(error))
    except NotFound as error:
        return WriteResult("gone", None, str(error))
    except Ambiguous as error:
        return WriteResult("unknown", None, str(error))
    except KubeError as error:
        return WriteResult("failed", None, str(error))
