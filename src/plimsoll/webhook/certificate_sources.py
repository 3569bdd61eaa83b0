"""Sources of the serving certificate: a Secret that the replicas share, or files that another tool keeps up to date."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import structlog

from plimsoll.controllers.placement.webhook_configuration import SECRET
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import AlreadyExists, Conflict, NotFound
from plimsoll.kube.types.core import Secret
from plimsoll.kube.types.resources import SECRETS
from plimsoll.runtime.clock import Clock
from plimsoll.webhook.certificates import Material, Step, load_certificate, next_step, serving_context, take_step

log = structlog.get_logger()


class CertificateSource(Protocol):
    @property
    def authorities(self) -> bytes:
        """PEM of the old and new authorities; empty if another tool maintains the CA bundle."""
        ...

    @property
    def tls(self) -> ssl.SSLContext:
        """The server's context: always the same object, with the current certificate."""
        ...

    async def refresh(self, *, leading: bool, trusted: bool) -> None:
        """Read the certificate again; the leader also renews it. `trusted`: all `authorities` are in the CA bundle."""
        ...


class CertificateInSecret:
    def __init__(self, client: Client, clock: Clock, *, namespace: str, hosts: Sequence[str]) -> None:
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._hosts = tuple(hosts)
        self._material: Material | None = None
        self._tls: ssl.SSLContext | None = None

    @property
    def authorities(self) -> bytes:
        return self._material.authorities if self._material is not None else b""

    @property
    def tls(self) -> ssl.SSLContext:
        if self._tls is None:
            raise RuntimeError("the certificate was never read; call `refresh` first")
        return self._tls

    async def refresh(self, *, leading: bool, trusted: bool) -> None:
        while True:
            secret, material = await self._read()
            step = next_step(material, self._hosts, self._clock.now(), trusted=trusted)
            # Any replica may create the first certificate; after that, only the leader renews it.
            if step is Step.KEEP or (material is not None and not leading):
                break
            made = take_step(step, material, self._hosts, self._clock.now())
            if made is not None and await self._write(secret, made):
                log.info("webhook certificate renewed", step=step.value, secret=f"{self._namespace}/{SECRET}")
                material = made
                break
        if material is not None:
            self._serve(material)

    def _serve(self, material: Material) -> None:
        served = self._material
        if self._tls is None:
            self._tls = serving_context(material.certificate, material.key)
        elif served is None or served.certificate != material.certificate:
            load_certificate(self._tls, material.certificate, material.key)
        self._material = material

    async def _read(self) -> tuple[Secret | None, Material | None]:
        try:
            secret = await self._client.get(SECRETS, self._namespace, SECRET)
        except NotFound:
            return None, None
        return secret, Material.of_secret(dict(secret.data))

    async def _write(self, secret: Secret | None, material: Material) -> bool:
        """Store the material; False if another replica was faster."""
        data = material.as_secret()
        if secret is None:
            present = {name: value for name, value in data.items() if value is not None}
            body = {"metadata": {"name": SECRET}, "type": "kubernetes.io/tls", "data": present}
            try:
                await self._client.create(SECRETS, self._namespace, body)
            except AlreadyExists:
                return False
            return True
        try:
            await self._client.patch(
                SECRETS, self._namespace, SECRET, {"data": data},
                uid=secret.uid, resource_version=secret.metadata.resource_version,
            )  # fmt: skip
        except (Conflict, NotFound):
            return False
        return True


class UnusableFilesError(Exception):
    """The files of `webhook.certificateFile` and `webhook.keyFile` cannot be served with."""


class CertificateInFiles:
    """Reads files that cert-manager or another tool replaces in time."""

    def __init__(self, certificate: Path, key: Path, authority: Path | None) -> None:
        self._paths = (certificate, key, authority)
        self._served: tuple[bytes, bytes] | None = None
        self.authorities = b""
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.minimum_version = ssl.TLSVersion.TLSv1_2

    async def refresh(self, *, leading: bool, trusted: bool) -> None:  # noqa: ARG002 - others renew
        certificate, key, authority = self._paths
        try:
            found = certificate.read_bytes(), key.read_bytes()
            if found != self._served:
                serving_context(*found)  # check the pair first: a mismatch would break the context in use
                load_certificate(self.tls, *found)
            self.authorities = authority.read_bytes() if authority is not None else b""
        except (OSError, ssl.SSLError) as error:
            if self._served is None:
                raise UnusableFilesError(
                    f"webhook.certificateFile {certificate} and webhook.keyFile {key} cannot be used: {error}; expected a "
                    "certificate and its key as PEM, and the signing CA if webhook.caFile is set"
                ) from error
            # During a replacement the certificate and the key may not match for a moment.
            log.warning(
                "cannot reload webhook certificate; keeping the old one", certificate=str(certificate), error=str(error)
            )
            return
        self._served = found
