"""Whether the API server asks us, and whom it trusts when it does: kept right by the leader, for as long as it runs.

Inside a cluster whoever installs the operator also makes the MutatingWebhookConfiguration, and the operator only keeps the CA
bundle in it up to date. Outside, the operator makes a configuration of its own that points to its address, and takes it away
again when it ends; one that a crash left behind is replaced, or taken away, by the next leader.
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
from plimsoll.kube.types.core import KubeObject
from plimsoll.kube.types.resources import Resource
from plimsoll.runtime.clock import Clock
from plimsoll.webhook.certificate_sources import CertificateSource

log = structlog.get_logger()

REGISTERED_BY = "plimsoll.dev/registered-by"  # the process; a configuration without it is nobody's to take away
PERIOD_SECONDS = 10.0
_RETRY_SECONDS = 2.0
_GLANCE_SECONDS = 0.2  # at whether we lead: costs no request
_LEAVING_SECONDS = 2.0  # of the ten that a stop may take


class WebhookConfiguration(KubeObject, frozen=True, gc=False):
    webhooks: Sequence[Mapping[str, Any]] = field(default_factory=tuple)


WEBHOOK_CONFIGURATIONS = Resource(
    "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration",
    WebhookConfiguration, namespaced=False,
)  # fmt: skip


class Registration(Protocol):
    async def keep(self, authorities: bytes) -> bool:
        """Let the API server ask us and trust these authorities; whether it is so now."""
        ...

    async def withdraw(self) -> None:
        """The process ends."""
        ...


class ServiceRegistration:
    """Keeps the CA bundle of a configuration that is there already."""

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
                    "no webhook configuration: new pods are not placed",
                    expected=f"MutatingWebhookConfiguration {self._name}, as `plimsoll manifests` prints it",
                )
            self._missing = True
            return False
        self._missing = False
        if not authorities:
            return True  # someone else, such as cert-manager's injector, keeps the bundle
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
            log.info("CA bundle of the webhook configuration renewed", configuration=self._name)
        return True

    async def withdraw(self) -> None:
        """The configuration stays: other replicas serve it, and without any the API server goes on alone."""


class UrlRegistration:
    """Makes a configuration that points to this process."""

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
            log.info("webhook registered anew", configuration=self._name, url=self._url)
        return True

    async def withdraw(self) -> None:
        await remove_url_configuration(self._client, self._namespace, only_of=self._identity)


class NoRegistration:
    """`webhook.mode: off`. What an earlier run left behind is taken away."""

    def __init__(self, client: Client, *, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._cleaned = False

    async def keep(self, authorities: bytes) -> bool:  # noqa: ARG002 - nobody is to trust anything
        if not self._cleaned:
            await remove_url_configuration(self._client, self._namespace, only_of=None)
            self._cleaned = True
        return False

    async def withdraw(self) -> None:
        """Nothing was registered."""


async def remove_url_configuration(client: Client, namespace: str, *, only_of: str | None) -> None:
    """Take away this installation's configuration that points to a process: that one's, or (None) whoever's, because only the
    leader may have one. The resourceVersion keeps us from taking away what another leader has made its own in the meantime."""
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
    """Looks every few seconds whether certificate and registration are right."""

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
        self._trusted = b""  # what the API server was last told

    async def run(self) -> None:
        acted, due = False, self._clock.monotonic()
        while True:
            # At once when it falls to us: until then, pods start without a class.
            acting = self._leading() and self._ready()
            if acting != acted or self._clock.monotonic() >= due:
                acted, due = acting, self._clock.monotonic() + PERIOD_SECONDS
                try:
                    await self.once()
                except (KubeError, TimeoutError) as error:
                    log.warning("webhook registration or certificate not looked after", error=str(error))
                    due = self._clock.monotonic() + _RETRY_SECONDS
            await self._clock.sleep(_GLANCE_SECONDS)

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
            return False  # another was faster; the next round sees what it did

    async def withdraw(self) -> None:
        try:
            async with asyncio.timeout(_LEAVING_SECONDS):
                await self._registration.withdraw()
        except (KubeError, TimeoutError) as error:
            log.warning("webhook registration not removed; the next leader does that", error=str(error))
