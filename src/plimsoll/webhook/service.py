"""Builds the admission webhook: certificate, server, forwarding, registration. `plimsoll run` enters `placement_webhook`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import structlog

from plimsoll.config import Config
from plimsoll.config.sources import ConfigProblem, ConfigurationError
from plimsoll.controllers.build import placement_settings
from plimsoll.controllers.placement.admission.classify import PodClassifier
from plimsoll.controllers.placement.controller import PlacementController
from plimsoll.controllers.placement.webhook_configuration import PATH, SECRET, namespace_labels, service_names, webhooks
from plimsoll.kube.addresses import is_loopback
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import NotFound
from plimsoll.runtime.clock import Clock
from plimsoll.runtime.decision import Controller, Counter
from plimsoll.runtime.listen import EVERY_ADDRESS
from plimsoll.runtime.operator import Operator
from plimsoll.webhook.admission_handler import FORWARDING_SHARE, LOOKING_SHARE, AdmissionHandler
from plimsoll.webhook.certificate_sources import CertificateInFiles, CertificateInSecret, CertificateSource
from plimsoll.webhook.forwarding import ADDRESS, LeaderForwarder
from plimsoll.webhook.live_reads import LiveReads
from plimsoll.webhook.registration import NoRegistration, Registrar, Registration, ServiceRegistration, UrlRegistration
from plimsoll.webhook.server import WebhookServer

log = structlog.get_logger()

LONGEST_TIMEOUT = timedelta(seconds=30)


@asynccontextmanager
async def placement_webhook(
    config: Config,
    controllers: Sequence[Controller],
    client: Client,
    operator: Operator,
    *,
    clock: Clock,
    identity: str,
) -> AsyncIterator[WebhookServer | None]:
    """Serve and register the webhook while the block runs, as configured. In read-only mode it does neither."""
    placing = any(controller.name == PlacementController.name for controller in controllers)
    if config.operator.read_only_mode or not placing:
        operator.advertise({ADDRESS: None})
        yield None
        return
    async with AsyncExitStack() as stack:
        server, certificate = None, None
        registration: Registration = NoRegistration(client, namespace=config.operator.namespace)
        if config.webhook.mode == "off":
            operator.advertise({ADDRESS: None})
        else:
            certificate = certificate_for(config, client, clock)
            await _first_certificate(certificate, config.operator.namespace)
            admissions = await _admissions(
                config, client, operator, certificate=certificate, clock=clock, identity=identity, stack=stack
            )
            server = await stack.enter_async_context(
                WebhookServer(config.webhook.host, config.webhook.port, certificate.tls, admissions)
            )
            log.info("serving admission webhook", host=config.webhook.host, port=server.port, mode=config.webhook.mode)
            operator.advertise({ADDRESS: own_address(config, server.port)})
            registration = _registration(config, client, server.port, identity)
        registrar = Registrar(
            clock, registration, certificate,
            leading=lambda: operator.leading, ready=lambda: operator.not_ready() is None and operator.works(PlacementController.name),
        )  # fmt: skip
        task = asyncio.create_task(registrar.run(), name="webhook registration")
        task.add_done_callback(_tell_failure)
        try:
            yield server
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await registrar.withdraw()


async def _admissions(
    config: Config,
    client: Client,
    operator: Operator,
    *,
    certificate: CertificateSource,
    clock: Clock,
    identity: str,
    stack: AsyncExitStack,
) -> AdmissionHandler:
    def count(name: str, **labels: str) -> None:
        operator.metrics.count((Counter(name, labels),))

    look_seconds = config.webhook.timeout.total_seconds() * LOOKING_SHARE
    admission = PodClassifier(
        operator.view, placement_settings(config), watch_namespaces=config.operator.watch_namespaces
    )  # fmt: skip
    looks = LiveReads(
        client, admission, clock, seconds=look_seconds,
        counted=lambda what, result: count("plimsoll_admission_live_reads_total", what=what, result=result),
    )  # fmt: skip
    forwarding = LeaderForwarder(
        lambda: operator.leader_annotations.get(ADDRESS, ""),
        authorities=lambda: certificate.authorities,
        server_name=service_names(config.operator.namespace)[0],
        identity=identity,
        seconds=config.webhook.timeout.total_seconds() * FORWARDING_SHARE,
        counted=lambda result: count("plimsoll_admission_forwards_total", result=result),
    )
    await stack.enter_async_context(forwarding)
    return AdmissionHandler(
        admission, looks, clock, look_seconds=look_seconds,
        leading=lambda: operator.leading, forwarding=forwarding, count=lambda one: operator.metrics.count((one,)),
    )  # fmt: skip


def certificate_for(config: Config, client: Client, clock: Clock) -> CertificateSource:
    section = config.webhook
    if section.timeout > LONGEST_TIMEOUT:
        raise _misconfigured("webhook.timeout", "exceeds the API server's maximum of 30s")
    if bool(section.certificate_file) != bool(section.key_file):
        missing, there = ("keyFile", "certificateFile") if section.certificate_file else ("certificateFile", "keyFile")
        raise _misconfigured(f"webhook.{missing}", f"is not set, but webhook.{there} is; set both, or neither")
    if section.certificate_file:
        authority = Path(section.ca_file) if section.ca_file else None
        return CertificateInFiles(Path(section.certificate_file), Path(section.key_file), authority)
    hosts = [*service_names(config.operator.namespace)]
    if section.mode == "url":
        hosts.append(urlsplit(url_for(config, client.server, section.port)).hostname or "")
    return CertificateInSecret(client, clock, namespace=config.operator.namespace, hosts=hosts)


async def _first_certificate(certificate: CertificateSource, namespace: str) -> None:
    try:
        await certificate.refresh(leading=False, trusted=False)
    except NotFound as error:  # a new Secret needs its namespace
        raise _misconfigured(
            "operator.namespace", f'"{namespace}" does not exist, and the webhook stores its certificate there (Secret '
            f"{SECRET}); run kubectl create namespace {namespace}, or set one that exists"
        ) from error  # fmt: skip


def _registration(config: Config, client: Client, port: int, identity: str) -> Registration:
    if config.webhook.mode == "service":
        return ServiceRegistration(client, namespace=config.operator.namespace)
    labels = namespace_labels(config.placement.namespace_selector)

    def described(client_config: Mapping[str, Any]) -> list[dict[str, Any]]:
        return webhooks(
            client_config,
            operator_namespace=config.operator.namespace,
            timeout_seconds=int(config.webhook.timeout.total_seconds()),
            watch_namespaces=config.operator.watch_namespaces,
            namespace_labels=labels,
        )

    return UrlRegistration(
        client, namespace=config.operator.namespace, identity=identity, webhooks=described,
        url=url_for(config, client.server, port),
    )  # fmt: skip


def url_for(config: Config, api_server: str, port: int) -> str:
    """The URL at which the API server reaches the webhook."""
    if config.webhook.url:
        parts = urlsplit(config.webhook.url)
        if parts.scheme != "https" or not parts.hostname or parts.path.rstrip("/"):
            raise _misconfigured(
                "webhook.url",
                f'"{config.webhook.url}" is not an https address without a path, such as https://10.0.0.7:9443',
            )
        return config.webhook.url.rstrip("/") + PATH
    host = urlsplit(api_server).hostname or ""
    if not is_loopback(host):
        raise _misconfigured(
            "webhook.url", f"is not set, and the API server ({host}) is not on this machine; set the https address at which the API "
            "server reaches the operator, or webhook.mode: off"
        )  # fmt: skip
    return f"https://127.0.0.1:{port}{PATH}"


def own_address(config: Config, port: int) -> str:
    """The address at which other replicas reach this one."""
    host = config.webhook.host
    if host == EVERY_ADDRESS:
        host = os.environ.get("POD_IP") or "127.0.0.1"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _misconfigured(key: str, message: str) -> ConfigurationError:
    return ConfigurationError([ConfigProblem("", key, message)])


def _tell_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("webhook registration task failed; the registration is no longer updated", exc_info=error)
