"""`plimsoll allocation migrate`: remove claims that the hybrid scheme left in node annotations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from plimsoll.cli.allocation.cluster import nodes_and_containers, run_on_cluster
from plimsoll.cli.connection import cluster_options
from plimsoll.config import Config
from plimsoll.controllers.allocation.migration import Migration, compare
from plimsoll.controllers.allocation.types import WekaContainer
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import Conflict, KubeError
from plimsoll.kube.types.resources import NODES

_ATTEMPTS = 5


@click.command(
    epilog="""\b
Examples:
  plimsoll allocation migrate --dry-run
  plimsoll allocation migrate --apply --node storage-3
"""
)
@click.option("--dry-run/--apply", "dry_run", default=True, show_default="--dry-run", help="List only, or remove.")
@click.option("--node", metavar="NAME", help="Only this node.")
@cluster_options
def migrate(*, dry_run: bool, node: str | None, **options: Any) -> None:
    """Compare the claims of the hybrid scheme in node annotations with container status, and remove redundant ones.

    An annotation is removed only if each of its claims is also in its owner's status, or its owner is deleted. Exit code 1:
    some claims differ and were kept.
    """

    async def run(client: Client, _: Config) -> tuple[list[Migration], dict[str, str]]:
        nodes, containers = await nodes_and_containers(client)
        chosen = [one for name, one in sorted(nodes.items()) if node in (None, name)]
        found = [migration for one in chosen if (migration := compare(one, containers)) is not None]
        failed: dict[str, str] = {}
        for migration in found if not dry_run else ():
            try:
                await _remove(client, migration.node, containers)
            except KubeError as error:
                failed[migration.node] = str(error)
        return found, failed

    found, failed = run_on_cluster(run, options)
    kept = False
    for migration in found:
        click.echo(migration.node)
        for claim in migration.claims:
            detail = f": {claim.detail}" if claim.detail else ""
            click.echo(f"  {claim.annotation} {claim.what} of {claim.owner}: {claim.verdict}{detail}")
        for sentence in migration.unreadable:
            click.echo(f"  {sentence}")
        verb = "would be removed" if dry_run else "not removed" if migration.node in failed else "removed"
        click.echo(f"  {verb}: {', '.join(migration.removable) or 'nothing'}")
        kept = kept or bool(migration.unreadable) or any(claim.verdict == "differs" for claim in migration.claims)
    for name, why in failed.items():
        click.echo(f"{name}: not removed: {why}", err=True)
    click.echo(f"{len(found)} nodes have claims of the hybrid scheme")
    if failed or kept:
        raise SystemExit(1)


async def _remove(client: Client, name: str, containers: Sequence[WekaContainer]) -> None:
    """Remove with a resourceVersion precondition; retry on conflicts, since kubelets write their nodes often."""
    for attempt in range(_ATTEMPTS):
        node = await client.get(NODES, "", name)
        migration = compare(node, containers)
        if migration is None or not migration.removable:
            return
        try:
            version = node.metadata.resource_version
            await client.patch(NODES, "", name, migration.patch, uid=node.uid, resource_version=version)
        except Conflict:
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            return
