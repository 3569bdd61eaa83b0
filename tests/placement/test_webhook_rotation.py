"""The serving certificate in its Secret, on a real API server: shared by all replicas, and renewed without a gap in trust."""

from __future__ import annotations

import asyncio
import base64
from datetime import timedelta

from plimsoll.clock import RealClock
from plimsoll.kube.client import Client
from plimsoll.kube.resources import SECRETS
from plimsoll.placement.webhook_configuration import SECRET, url_configuration, webhooks
from plimsoll.web.certificate_sources import CertificateInSecret
from plimsoll.web.certificates import RENEWED_BEFORE, SETTLES_IN, VALID_FOR
from plimsoll.web.registration import WEBHOOK_CONFIGURATIONS, Registrar, UrlRegistration
from tests.clocks import PushedClock
from tests.placement.webhook_cluster import only

HOSTS = ("plimsoll-webhook.home.svc", "127.0.0.1")


async def test_replicas_that_start_together_agree_on_one(client: Client, namespace: str):
    sources = [CertificateInSecret(client, RealClock(), namespace=namespace, hosts=HOSTS) for _ in range(4)]
    await asyncio.gather(*(source.refresh(leading=False, trusted=False) for source in sources))
    assert len({source.authorities for source in sources}) == 1
    secret = await client.get(SECRETS, namespace, SECRET)
    assert base64.b64decode(secret.data["ca.crt"]) == sources[0].authorities


async def test_a_new_authority_is_in_the_configuration_before_its_certificate_is_served(client: Client, namespace: str):
    clock = PushedClock()
    clock.wall_offset = RENEWED_BEFORE - VALID_FOR
    source = CertificateInSecret(client, clock, namespace=namespace, hosts=HOSTS)
    follower = CertificateInSecret(client, clock, namespace=namespace, hosts=HOSTS)
    registration = UrlRegistration(
        client, namespace=namespace, identity="one", url="https://127.0.0.1:9/mutate",
        webhooks=lambda where: webhooks(where, operator_namespace=namespace, timeout_seconds=1, namespace_labels=only(namespace)),
    )  # fmt: skip
    registrar = Registrar(clock, registration, source, leading=lambda: True, ready=lambda: True)

    async def trusted() -> bytes:
        found = await client.get(WEBHOOK_CONFIGURATIONS, "", url_configuration(namespace))
        return base64.b64decode(found.webhooks[0]["clientConfig"]["caBundle"])

    async def served() -> str:
        return (await client.get(SECRETS, namespace, SECRET)).data["tls.crt"]

    try:
        await registrar.once()
        old, first = await trusted(), await served()
        assert old.count(b"BEGIN") == 1
        clock.wall_offset = timedelta(0)
        await follower.refresh(leading=False, trusted=False)  # a follower renews nothing
        assert follower.authorities == old
        await registrar.once()
        both = await trusted()
        assert both.endswith(old)
        assert both.count(b"BEGIN") == 2
        assert await served() == first
        clock.wall_offset = SETTLES_IN
        await registrar.once()
        assert await served() != first
        assert await trusted() == both
        await follower.refresh(leading=False, trusted=False)
        assert follower.authorities == both
    finally:
        await registrar.withdraw()


async def test_a_secret_that_someone_spoilt_is_made_anew(client: Client, namespace: str):
    source = CertificateInSecret(client, RealClock(), namespace=namespace, hosts=HOSTS)
    await source.refresh(leading=True, trusted=False)
    before = source.authorities
    await client.patch(SECRETS, namespace, SECRET, {"data": {"tls.crt": "aGVsbG8="}})
    await source.refresh(leading=True, trusted=False)
    assert source.authorities != before
