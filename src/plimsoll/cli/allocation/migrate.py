"""`plimsoll allocation migrate`: claims that the former scheme left on nodes."""

from __future__ import annotations

from typing import Any

import click

from plimsoll.allocation.migration import Migration, compare
from plimsoll.cli.allocation.cluster import nodes_and_containers, run_on_cluster
from plimsoll.cli.connecting import cluster_options
from plimsoll.config import Config
from plimsoll.kube.client import Client
from plimsoll.kube.errors import KubeError
from plimsoll.kube.resources import NODES


@click.command(
    epilog="""\b
Examples:
  plimsoll allocation migrate --dry-run
  plimsoll allocation migrate --apply --node storage-3
"""
)
@click.option("--dry-run/--apply", "dry_run", default=True, show_default="--dry-run", help="Only tell, or remove, too.")
@click.option("--node", metavar="NAME", help="Only this node.")
@cluster_options
def migrate(*, dry_run: bool, node: str | None, **options: Any) -> None:
    """Compare the claims that the former scheme left on nodes with what status says, and remove those that are safe to lose.

    An annotation is removed only if all of its claims are in their owner's status, too, or their owner is gone. Exit code 1:
    some differ, and were kept.
    """

    async def run(client: Client, _: Config) -> tuple[list[Migration], list[str]]:
        nodes, containers = await nodes_and_containers(client)
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

    found, failed = run_on_cluster(run, options)
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
