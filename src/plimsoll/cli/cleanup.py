"""`plimsoll cleanup`: after an uninstall, remove what the operator wrote to objects of others, and its own leftovers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import click
from msgspec import Struct

from plimsoll.cli.connection import cluster_options, configuration, run_with_client
from plimsoll.config import Config
from plimsoll.controllers.deletion_cost.values import removed
from plimsoll.controllers.nodegroups.patches import DRAIN_TAINT
from plimsoll.controllers.nodegroups.types import FINALIZER, VPSIE_NODES, VPSieNode
from plimsoll.controllers.placement.annotations import CLASS, PLACED_BY, REASON, TOKEN
from plimsoll.controllers.placement.webhook_configuration import SECRET, url_configuration
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import Conflict, KubeError, NotFound
from plimsoll.kube.codec import builtins
from plimsoll.kube.shards import LABEL
from plimsoll.kube.types.coordination import Lease
from plimsoll.kube.types.core import Node, Pod
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import CONFIGMAPS, LEASES, NODES, PODS, SECRETS, Resource
from plimsoll.webhook.registration import REGISTERED_BY, WEBHOOK_CONFIGURATIONS


class Leftover(Struct, frozen=True):
    """A part of an object that is ours, or without a patch the whole object. A pod is evicted, never deleted."""

    resource: Resource[Any]
    obj: KubeObject
    what: str
    patch: Mapping[str, Any] | None = None

    def __str__(self) -> str:
        return f"{self.resource.key(self.obj)}: {self.what}"


@click.command(
    epilog="""\b
Examples:
  plimsoll cleanup                       list what would be removed
  plimsoll cleanup --apply               remove it
"""
)
@click.option("--dry-run/--apply", "dry_run", default=True, show_default="--dry-run", help="List only, or remove.")
@cluster_options
def cleanup(*, dry_run: bool, **options: Any) -> None:
    """Remove what the operator left in a cluster after it was uninstalled.

    \b
    Pods        deletion costs that Plimsoll wrote, and the placement annotations
    Nodes       the drain taint of an unfinished drain
    VPSieNodes  the finalizer: the next operator owns their machines then
    Own objects state ConfigMaps, the webhook certificate, the webhook registration of a crashed process

    No running pod is restarted. Affinity and tolerations that admission added stay until a pod is replaced; a pod that is
    unschedulable with them is evicted, so that its replacement may run anywhere. Values that others wrote,
    allocations and node groups are not changed. The command refuses to run while an operator holds the leader lease.
    """
    config = configuration(options["file"], options["settings"])

    async def run(client: Client) -> tuple[list[Leftover], dict[str, str]]:
        await _refuse_while_leading(client, config)
        found = await leftovers(client, config.operator.namespace)
        failed = {}
        for one in found if not dry_run else ():
            try:
                await _remove(client, one)
            except KubeError as error:
                failed[str(one)] = str(error)
        return found, failed

    found, failed = run_with_client(run, config, kubeconfig=options["kubeconfig"], context=options["context"])
    for one in found:
        verb = "would be removed" if dry_run else "not removed" if str(one) in failed else "removed"
        click.echo(f"{one} {verb}")
    for what, why in failed.items():
        click.echo(f"{what}: {why}", err=True)
    click.echo(f"{len(found)} leftovers" + (", to be removed with --apply" if found and dry_run else ""))
    if failed:
        raise SystemExit(1)


async def _refuse_while_leading(client: Client, config: Config) -> None:
    namespace, name = config.operator.namespace, config.operator.leader_election.lease_name
    try:
        lease = await client.get(LEASES, namespace, name)
    except NotFound:
        return
    if is_held(lease, datetime.now(UTC)):
        raise click.ClickException(
            f"an operator is running (Lease {namespace}/{name} is held by {lease.spec.holder_identity}) and would write everything "
            "again; uninstall it first"
        )


def is_held(lease: Lease, now: datetime) -> bool:
    spec = lease.spec
    if not spec.holder_identity or spec.renew_time is None:
        return False
    return now - spec.renew_time < timedelta(seconds=spec.lease_duration_seconds or 0)


async def leftovers(client: Client, namespace: str) -> list[Leftover]:
    return [
        *on_pods((await client.list(PODS)).items),
        *on_nodes((await client.list(NODES)).items),
        *on_members(await _all(client, VPSIE_NODES)),
        *await _own(client, namespace),
    ]


def on_pods(pods: Iterable[Pod]) -> list[Leftover]:
    found = []
    for pod in pods:
        if is_stranded(pod):
            found.append(Leftover(PODS, pod, f"unschedulable with the class {pod.annotations[CLASS]}, evicted"))
            continue
        cost = removed(pod)
        classes = [key for key in (CLASS, REASON, PLACED_BY, TOKEN) if key in pod.annotations]
        gone = {**(cost["metadata"]["annotations"] if cost else {}), **dict.fromkeys(classes)}
        if gone:
            found.append(Leftover(PODS, pod, f"annotations {', '.join(gone)}", {"metadata": {"annotations": gone}}))
    return found


def is_stranded(pod: Pod) -> bool:
    """Whether a pod waits for a node of the class that admission assigned. Nothing else would ever release it."""
    if CLASS not in pod.annotations or pod.spec.node_name or pod.terminating or pod.finished:
        return False
    conditions = [one for one in pod.status.conditions if one.type == "PodScheduled"]
    return any(one.status == "False" and one.reason == "Unschedulable" for one in conditions)


def on_nodes(nodes: Iterable[Node]) -> list[Leftover]:
    found = []
    for node in nodes:
        others = [builtins(taint) for taint in node.spec.taints if taint.key != DRAIN_TAINT]
        if len(others) < len(node.spec.taints):
            found.append(Leftover(NODES, node, f"taint {DRAIN_TAINT}", {"spec": {"taints": others or None}}))
    return found


def on_members(members: Iterable[VPSieNode]) -> list[Leftover]:
    """A terminating VPSieNode keeps the finalizer: without it the object would vanish while its machine keeps billing."""
    found = []
    for one in members:
        others = [finalizer for finalizer in one.metadata.finalizers if finalizer != FINALIZER]
        if len(others) < len(one.metadata.finalizers) and not one.terminating:
            patch = {"metadata": {"finalizers": others or None}}
            found.append(Leftover(VPSIE_NODES, one, f"finalizer {FINALIZER}", patch))
    return found


async def _own(client: Client, namespace: str) -> list[Leftover]:
    remembered = (await client.list(CONFIGMAPS, namespace, label_selector=LABEL)).items
    found = [Leftover(CONFIGMAPS, record, "state of the operator") for record in remembered]
    with suppress(NotFound):
        found.append(Leftover(SECRETS, await client.get(SECRETS, namespace, SECRET), "certificate of the webhook"))
    with suppress(NotFound):
        registered = await client.get(WEBHOOK_CONFIGURATIONS, "", url_configuration(namespace))
        if REGISTERED_BY in registered.annotations:
            found.append(Leftover(WEBHOOK_CONFIGURATIONS, registered, "webhook registration of a crashed process"))
    return found


async def _all(client: Client, resource: Resource[Any]) -> Sequence[Any]:
    try:
        return (await client.list(resource)).items
    except NotFound:
        return ()  # the kind is not installed


async def _remove(client: Client, one: Leftover) -> None:
    meta = one.obj.metadata
    try:
        if one.patch is None and isinstance(one.obj, Pod):
            await client.evict(meta.namespace, meta.name, uid=meta.uid)
        elif one.patch is None:
            await client.delete(one.resource, meta.namespace, meta.name, uid=meta.uid)
        else:
            await client.patch(
                one.resource, meta.namespace, meta.name, one.patch, uid=meta.uid, resource_version=meta.resource_version
            )
    except NotFound:
        return
    except Conflict as error:
        raise Conflict(409, "Conflict", "the object changed in the meantime; run the command again") from error
