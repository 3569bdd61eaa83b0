"""`plimsoll allocation show`: drives and ports by node and container."""

from __future__ import annotations

import sys
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.table import Table

from plimsoll.cli.allocation.cluster import clusters_of, nodes_and_containers, run_on_cluster
from plimsoll.cli.connection import cluster_options
from plimsoll.config import Config
from plimsoll.controllers.allocation.container_nodes import nodes_of
from plimsoll.controllers.allocation.lease import lease_name
from plimsoll.controllers.allocation.overview import NodeOverview, overview
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import NotFound
from plimsoll.kube.types.coordination import Lease
from plimsoll.kube.types.resources import LEASES


@click.command(
    epilog="""\b
Examples:
  plimsoll allocation show
  plimsoll allocation show --node storage-3 -o json
"""
)
@click.option("--node", metavar="NAME", help="Only this node.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@cluster_options
def show(*, node: str | None, output: str, **options: Any) -> None:
    """Print allocations, free and blocked drives, waiting containers and conflicts by node, read live."""

    async def look(client: Client, config: Config) -> list[NodeOverview]:
        nodes, containers = await nodes_and_containers(client)
        ports = 60 if config.allocation.reduced_ports else 100
        names = {name for one in containers for name in nodes_of(one)}
        names |= {one.name for one in nodes.values() if any(key.startswith("weka.io/") for key in one.annotations)}
        wanted = [node] if node else sorted(names)
        clusters = await clusters_of(client)
        return [
            overview(
                name, nodes.get(name), containers, ports, clusters=clusters, lease=await _lease(client, config, name)
            )
            for name in wanted
        ]

    found = run_on_cluster(look, options)
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return
    console = Console(width=None if sys.stdout.isatty() else 140)
    for one in found:
        console.print(_table(one))
        if one.lease:
            console.print(f"  lease held by {one.lease}", highlight=False)
        for container, reason in one.reasons.items():
            console.print(f"  {container} waits: {reason}", highlight=False, markup=False)
        for line in (*one.conflicts, *one.problems):
            console.print(f"  [red]{line}[/red]", highlight=False)
    if not found:
        click.echo("no node has drives and no container has a node")


async def _lease(client: Client, config: Config, node: str) -> Lease | None:
    try:
        return await client.get(LEASES, config.allocation.namespace, lease_name(node))
    except NotFound:
        return None


def _table(one: NodeOverview) -> Table:
    title = f"{one.node}{'' if one.exists else ' (no such node)'}"
    free = f"free: {', '.join(one.free_drives) or 'no drives'}"
    shared = "".join(f"; {drive.serial} {drive.free_gib} of {drive.capacity_gib} GiB" for drive in one.shared)
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
