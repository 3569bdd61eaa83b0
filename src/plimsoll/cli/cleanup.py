"""`plimsoll cleanup`: take away what the operator has written on objects that are not its own, once it is uninstalled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import click
from msgspec import Struct

from plimsoll.cli.connection import ask, cluster_options, configuration
from plimsoll.config import Config
from plimsoll.controllers.deletion_cost.values import removed
from plimsoll.controllers.nodegroups.patches import LEAVING
from plimsoll.controllers.nodegroups.types import FINALIZER, VPSIE_NODES, VPSieNode
from plimsoll.controllers.placement.annotations import CLASS, PLACED_BY, REASON, TOKEN
from plimsoll.controllers.placement.webhook_configuration import SECRET, url_configuration
from plimsoll.disruption.entries import LABEL
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import Conflict, KubeError, NotFound
from plimsoll.kube.codec import builtins
from plimsoll.kube.types.core import KubeObject, Node, Pod
from plimsoll.kube.types.resources import CONFIGMAPS, LEASES, NODES, PODS, SECRETS, Resource
from plimsoll.kube.types.stored import Lease
from plimsoll.webhook.registration import REGISTERED_BY, WEBHOOK_CONFIGURATIONS


class Leftover(Struct, frozen=True):
    """Something of ours on an object, or (without a patch) an object that is ours altogether."""

    resource: Resource[Any]
    obj: KubeObject
    what: str
    patch: Mapping[str, Any] | None = None

    def __str__(self) -> str:
        return f"{self.resource.key(self.obj)}: {self.what}"


@click.command(
    epilog="""\b
Examples:
  plimsoll cleanup                       tell what is there
  plimsoll cleanup --apply               and take it away
"""
)
@click.option("--dry-run/--apply", "dry_run", default=True, show_default="--dry-run", help="Only tell, or remove, too.")
@cluster_options
def cleanup(*, dry_run: bool, **options: Any) -> None:
    """Take away what the operator has left in a cluster from which it was uninstalled.

    \b
    Of pods     deletion costs that are ours, and the annotations of their class
    Of nodes    our taint, where a drain was not finished
    VPSieNodes  our finalizer: their machines are then the next operator's
    Our own     what was remembered, the webhook's certificate and a registration of a process that crashed

    No pod is restarted. What admission gave a pod (affinity, tolerations) stays with it until it is replaced. Values that others
    wrote, allocations and node groups are left as they are. While an operator leads, nothing is touched.
    """
    config = configuration(options["file"], options["settings"])

    async def run(client: Client) -> tuple[list[Leftover], dict[str, str]]:
        await _refuse_while_led(client, config)
        found = await leftovers(client, config.operator.namespace)
        failed = {}
        for one in found if not dry_run else ():
            try:
                await _take_away(client, one)
            except KubeError as error:
                failed[str(one)] = str(error)
        return found, failed

    found, failed = ask(run, config, kubeconfig=options["kubeconfig"], context=options["context"])
    for one in found:
        verb = "would be removed" if dry_run else "not removed" if str(one) in failed else "removed"
        click.echo(f"{one} {verb}")
    for what, why in failed.items():
        click.echo(f"{what}: {why}", err=True)
    click.echo(f"{len(found)} leftovers" + (", to be removed with --apply" if found and dry_run else ""))
    if failed:
        raise SystemExit(1)


async def _refuse_while_led(client: Client, config: Config) -> None:
    namespace, name = config.operator.namespace, config.operator.leader_election.lease_name
    try:
        lease = await client.get(LEASES, namespace, name)
    except NotFound:
        return
    if is_held(lease, datetime.now(UTC)):
        raise click.ClickException(
            f"an operator leads (Lease {namespace}/{name} is held by {lease.spec.holder_identity}) and would write it all anew; "
            "uninstall it first"
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
        cost = removed(pod)
        classes = [key for key in (CLASS, REASON, PLACED_BY, TOKEN) if key in pod.annotations]
        gone = {**(cost["metadata"]["annotations"] if cost else {}), **dict.fromkeys(classes)}
        if gone:
            found.append(Leftover(PODS, pod, f"annotations {', '.join(gone)}", {"metadata": {"annotations": gone}}))
    return found


def on_nodes(nodes: Iterable[Node]) -> list[Leftover]:
    found = []
    for node in nodes:
        others = [builtins(taint) for taint in node.spec.taints if taint.key != LEAVING]
        if len(others) < len(node.spec.taints):
            found.append(Leftover(NODES, node, f"taint {LEAVING}", {"spec": {"taints": others or None}}))
    return found


def on_members(members: Iterable[VPSieNode]) -> list[Leftover]:
    """One that is being deleted keeps it: without it the object would go, and its machine cost money for ever."""
    found = []
    for one in members:
        others = [finalizer for finalizer in one.metadata.finalizers if finalizer != FINALIZER]
        if len(others) < len(one.metadata.finalizers) and not one.terminating:
            patch = {"metadata": {"finalizers": others or None}}
            found.append(Leftover(VPSIE_NODES, one, f"finalizer {FINALIZER}", patch))
    return found


async def _own(client: Client, namespace: str) -> list[Leftover]:
    remembered = (await client.list(CONFIGMAPS, namespace, label_selector=LABEL)).items
    found = [Leftover(CONFIGMAPS, record, "what was remembered") for record in remembered]
    with suppress(NotFound):
        found.append(Leftover(SECRETS, await client.get(SECRETS, namespace, SECRET), "the webhook's certificate"))
    with suppress(NotFound):
        registered = await client.get(WEBHOOK_CONFIGURATIONS, "", url_configuration(namespace))
        if REGISTERED_BY in registered.annotations:
            found.append(Leftover(WEBHOOK_CONFIGURATIONS, registered, "a registration that a crash left behind"))
    return found


async def _all(client: Client, resource: Resource[Any]) -> Sequence[Any]:
    try:
        return (await client.list(resource)).items
    except NotFound:
        return ()  # nobody has installed the kind


async def _take_away(client: Client, one: Leftover) -> None:
    meta = one.obj.metadata
    try:
        if one.patch is None:
            await client.delete(one.resource, meta.namespace, meta.name, uid=meta.uid)
        else:
            await client.patch(
                one.resource, meta.namespace, meta.name, one.patch, uid=meta.uid, resource_version=meta.resource_version
            )
    except NotFound:
        return
    except Conflict as error:
        raise Conflict(409, "Conflict", "it was changed in the meantime; run the command again") from error
