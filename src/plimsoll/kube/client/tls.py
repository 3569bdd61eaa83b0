"""TLS contexts of the client: trusted authorities and the client certificate."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field

from plimsoll.kube.client.errors import CredentialsError

Pem = Callable[[], bytes]  # returns PEM text, which may change while the process runs


@dataclass(frozen=True)
class Certificate:
    """A client certificate with its key, as PEM. The repr omits the key."""

    chain: bytes
    key: bytes = field(repr=False)


class Tls:
    """Builds the TLS context, and a new one when the files behind it change."""

    def __init__(self, origin: str, *, authority: Pem | None = None, insecure: bool = False) -> None:
        self._origin = origin  # file and entry, for messages
        self._authority = authority
        self._insecure = insecure
        self._built_from: tuple[bytes, Certificate | None] | None = None
        self._context: ssl.SSLContext | None = None

    def context(self, certificate: Certificate | None) -> ssl.SSLContext:
        """The same object while nothing changes, because connections are pooled by it."""
        material = (self._authority() if self._authority else b"", certificate)
        if self._context is not None and material == self._built_from:
            return self._context
        try:
            self._context = self._build(*material)
        except CredentialsError:
            # During a rotation the certificate and the key may not match for a moment.
            if self._context is None:
                raise
        else:
            self._built_from = material
        return self._context

    def _build(self, authority: bytes, certificate: Certificate | None) -> ssl.SSLContext:
        try:
            text = authority.decode("ascii", "replace") if authority else None
            context = ssl.create_default_context(cadata=text)
        except ssl.SSLError as error:
            raise CredentialsError(
                f"{self._origin}: certificate-authority holds no usable certificates "
                f"(expected PEM, -----BEGIN CERTIFICATE-----): {error.reason or error}"
            ) from error
        # Some clusters have authorities without the key identifiers that Python 3.13 and later require in strict mode.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self._insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificate:
            self._present(context, certificate)
        return context

    def _present(self, context: ssl.SSLContext, certificate: Certificate) -> None:
        def refuse_password() -> str:
            # OpenSSL would otherwise prompt on the terminal and block.
            raise CredentialsError(
                f"{self._origin}: client-key is encrypted; expected a key without a pass phrase "
                "(openssl pkey -in KEY -out PLAIN_KEY)"
            )

        # OpenSSL loads certificates only from files. This one is private and deleted after loading.
        with tempfile.NamedTemporaryFile(prefix="plimsoll-", suffix=".pem") as pem:
            pem.write(certificate.chain.rstrip() + b"\n" + certificate.key)
            pem.flush()
            try:
                context.load_cert_chain(pem.name, password=refuse_password)
            except ssl.SSLError as error:
                raise CredentialsError(
                    f"{self._origin}: client-certificate and client-key do not form a pair, or are not PEM: "
                    f"{error.reason or error}"
                ) from error
