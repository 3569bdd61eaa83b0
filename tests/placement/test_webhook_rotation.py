"""The serving certificate in its Secret, on a real API server: shared by all replicas, and renewed without a gap in trust."""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from plimsoll.controllers.placement.webhook_configuration import SECRET, url_configuration, webhooks
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import NotFound
from plimsoll.kube.types.resources import SECRETS
from plimsoll.runtime.clock import RealClock
from plimsoll.webhook.certificate_sources import CertificateInSecret
from plimsoll.webhook.certificates import RENEWED_BEFORE, SETTLES_IN, VALID_FOR, make_certificate
from plimsoll.webhook.registration import PERIOD_SECONDS, WEBHOOK_CONFIGURATIONS, Registrar, UrlRegistration
from tests.clocks import PushedClock
from tests.eventually import eventually
from tests.placement.webhook_cluster import asked, config, only, operating, registered
from tools.controlplane.cluster import ControlPlane

LEFT_ALONE = {"operation": "CREATE", "resource_kind": "Pod", "result": "left-alone"}
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


async def test_a_certificate_that_someone_else_issues_and_renews(
    control_plane: ControlPlane, client: Client, namespace: str, home: str, tmp_path: Path
):
    """As cert-manager does, through a secret that is mounted: no Secret of ours is made, and new files are taken up."""

    def issue() -> bytes:
        parts = make_certificate(["127.0.0.1"], datetime.now(UTC))
        for name, part in zip(("ca.crt", "tls.crt", "tls.key"), parts, strict=True):
            (tmp_path / name).write_bytes(part)
        return parts[0]

    async def trusted() -> bytes:
        found = await client.get(WEBHOOK_CONFIGURATIONS, "", url_configuration(home))
        return base64.b64decode(found.webhooks[0]["clientConfig"]["caBundle"])

    first = issue()
    where = f"{tmp_path}/"
    settings = config(
        home, namespace, certificate_file=where + "tls.crt", key_file=where + "tls.key", ca_file=where + "ca.crt"
    )
    clock = PushedClock()
    async with operating(control_plane, settings, clock=clock) as running:
        await registered(client)
        await asked(running, client, namespace)
        assert await trusted() == first
        with pytest.raises(NotFound):
            await client.get(SECRETS, home, SECRET)
        second = issue()
        clock.push(PERIOD_SECONDS)

        async def renewed() -> bool:
            return await trusted() == second

        await eventually(renewed, "the new authority in the configuration")
        before = running.counted("spotalis_webhook_requests_total", **LEFT_ALONE)

        async def asked_again() -> bool:
            await asked(running, client, namespace)
            return running.counted("spotalis_webhook_requests_total", **LEFT_ALONE) > before

        await eventually(asked_again, "a question over a connection that trusts the new one")
