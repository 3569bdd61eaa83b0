"""Registers the webhook with the API server; the leader keeps the registration and its CA bundle up to date.

Inside a cluster, the installation creates the MutatingWebhookConfiguration and the operator only updates its CA bundle. Outside,
the operator creates a configuration that points to its own address and deletes it when it stops. The next leader replaces or
deletes one that a crash left behind.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import structlog
from msgspec import field

from plimsoll.controllers.placement.webhook_configuration import WEBHOOK, service_configuration, url_configuration
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import AlreadyExists, Conflict, Forbidden, KubeError, NotFound
from plimsoll.kube.client.lost_replies import merge_holds
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import Resource
from plimsoll.runtime.clock import Clock
from plimsoll.webhook.certificate_sources import CertificateSource

log = structlog.get_logger()

REGISTERED_BY = "plimsoll.dev/registered-by"  # the identity of the process; a configuration without it is never deleted
PERIOD_SECONDS = 10.0
_RETRY_SECONDS = 2.0
_LEADERSHIP_POLL_SECONDS = 0.2  # costs no request
_WITHDRAW_SECONDS = 2.0  # of the ten seconds that a shutdown may take


class WebhookConfiguration(KubeObject, frozen=True, gc=False):
    webhooks: Sequence[Mapping[str, Any]] = field(default_factory=tuple)


WEBHOOK_CONFIGURATIONS = Resource(
    "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration",
    WebhookConfiguration, namespaced=False,
)  # fmt: skip


class Registration(Protocol):
    async def keep(self, authorities: bytes) -> bool:
        """Ensure that the API server calls us and trusts these authorities; returns whether it does now."""
        ...

    async def withdraw(self) -> None:
        """Called when the process stops."""
        ...


class ServiceRegistration:
    """Updates the CA bundle of an existing configuration."""

    def __init__(self, client: Client, *, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = service_configuration(namespace)
        self._missing = False
        self._cleaned = False

    async def keep(self, authorities: bytes) -> bool:
        if not self._cleaned:
            await remove_url_configuration(self._client, self._namespace, only_of=None)
            self._cleaned = True
        try:
            found = await self._client.get(WEBHOOK_CONFIGURATIONS, "", self._name)
        except NotFound:
            if not self._missing:
                log.warning(
                    "webhook configuration not found; new pods get no class",
                    expected=f"MutatingWebhookConfiguration {self._name}, as printed by `plimsoll manifests`",
                )
            self._missing = True
            return False
        self._missing = False
        if not authorities:
            return True  # another tool, such as cert-manager's injector, maintains the bundle
        bundle = base64.b64encode(authorities).decode()
        changes = [
            {"op": "add", "path": f"/webhooks/{position}/clientConfig/caBundle", "value": bundle}
            for position, webhook in enumerate(found.webhooks)
            if webhook.get("name") == WEBHOOK and webhook.get("clientConfig", {}).get("caBundle") != bundle
        ]
        if changes:
            await self._client.patch(
                WEBHOOK_CONFIGURATIONS, "", self._name, changes,
                form="json", uid=found.uid, resource_version=found.metadata.resource_version,
            )  # fmt: skip
            log.info("webhook CA bundle updated", configuration=self._name)
        return True

    async def withdraw(self) -> None:
        """The configuration stays: other replicas serve it, and with `failurePolicy: Ignore` no replica is needed."""


class UrlRegistration:
    """Creates a configuration that points to this process."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        identity: str,
        webhooks: Callable[[Mapping[str, Any]], list[dict[str, Any]]],
        url: str,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = url_configuration(namespace)
        self._identity = identity
        self._webhooks = webhooks
        self._url = url

    async def keep(self, authorities: bytes) -> bool:
        client_config = {"url": self._url}
        if authorities:
            client_config["caBundle"] = base64.b64encode(authorities).decode()
        wanted = {
            "metadata": {"name": self._name, "annotations": {REGISTERED_BY: self._identity}},
            "webhooks": self._webhooks(client_config),
        }
        try:
            found = await self._client.get(WEBHOOK_CONFIGURATIONS, "", self._name)
        except NotFound:
            await self._client.create(WEBHOOK_CONFIGURATIONS, "", wanted)
            log.info("webhook registered", configuration=self._name, url=self._url)
            return True
        registered = found.annotations.get(REGISTERED_BY) == self._identity
        if not registered or not merge_holds([dict(webhook) for webhook in found.webhooks], wanted["webhooks"]):
            await self._client.patch(
                WEBHOOK_CONFIGURATIONS, "", self._name, wanted,
                uid=found.uid, resource_version=found.metadata.resource_version,
            )  # fmt: skip
            log.info("webhook registration updated", configuration=self._name, url=self._url)
        return True

    async def withdraw(self) -> None:
        await remove_url_configuration(self._client, self._namespace, only_of=self._identity)


class NoRegistration:
    """For `webhook.mode: off`. It deletes the registration that an earlier run left behind."""

    def __init__(self, client: Client, *, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._cleaned = False

    async def keep(self, authorities: bytes) -> bool:  # noqa: ARG002 - nothing is registered
        if not self._cleaned:
            await remove_url_configuration(self._client, self._namespace, only_of=None)
            self._cleaned = True
        return False

    async def withdraw(self) -> None:
        """Nothing was registered."""


async def remove_url_configuration(client: Client, namespace: str, *, only_of: str | None) -> None:
    """Delete this installation's configuration that points to a process: that of `only_of`, or any (None), because only the
    leader may have one. The resourceVersion protects a configuration that another leader has taken over meanwhile."""
    name = url_configuration(namespace)
    try:
        found = await client.get(WEBHOOK_CONFIGURATIONS, "", name)
        owner = found.annotations.get(REGISTERED_BY)
        if owner is None or (only_of is not None and owner != only_of):
            return
        await client.delete(
            WEBHOOK_CONFIGURATIONS, "", name,
            uid=found.uid, resource_version=found.metadata.resource_version,
        )  # fmt: skip
        log.info("webhook registration removed", configuration=name, registered_by=owner)
    except (NotFound, Conflict):
        return
    except Forbidden:
        if only_of is not None:
            raise


class Registrar:
    """Checks certificate and registration every few seconds."""

    def __init__(
        self,
        clock: Clock,
        registration: Registration,
        certificate: CertificateSource | None,
        *,
        leading: Callable[[], bool],
        ready: Callable[[], bool],
    ) -> None:
        self._clock = clock
        self._registration = registration
        self._certificate = certificate
        self._leading = leading
        self._ready = ready
        self._trusted = b""  # the authorities that were last registered

    async def run(self) -> None:
        acted, due = False, self._clock.monotonic()
        while True:
            # Register at once after an election: until then, pods start without a class.
            acting = self._leading() and self._ready()
            if acting != acted or self._clock.monotonic() >= due:
                acted, due = acting, self._clock.monotonic() + PERIOD_SECONDS
                try:
                    await self.once()
                except (KubeError, TimeoutError) as error:
                    log.warning("cannot update webhook registration or certificate; retrying", error=str(error))
                    due = self._clock.monotonic() + _RETRY_SECONDS
            await self._clock.sleep(_LEADERSHIP_POLL_SECONDS)

    async def once(self) -> None:
        leading = self._leading()
        authorities = b""
        if self._certificate is not None:
            trusted = bool(self._trusted) and self._trusted == self._certificate.authorities
            await self._certificate.refresh(leading=leading, trusted=trusted)
            authorities = self._certificate.authorities
        if leading and self._ready() and await self._keep(authorities):
            self._trusted = authorities or b"elsewhere"

    async def _keep(self, authorities: bytes) -> bool:
        try:
            return await self._registration.keep(authorities)
        except (AlreadyExists, Conflict):
            return False  # another process was faster; check again in the next round

    async def withdraw(self) -> None:
        try:
            async with asyncio.timeout(_WITHDRAW_SECONDS):
                await self._registration.withdraw()
        except (KubeError, TimeoutError) as error:
            log.warning("webhook registration not removed; the next leader removes it", error=str(error))
