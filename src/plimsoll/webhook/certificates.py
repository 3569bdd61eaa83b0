"""The webhook's serving certificate: created by the operator and renewed long before it expires.

Each serving certificate has its own authority, whose key is discarded after signing. A rotation takes two steps, so that the API
server never sees a certificate that it does not trust yet: first the new authority is added to the CA bundle, and only after
that has propagated the new certificate is served. The old authority stays trusted until the next rotation, because replicas
switch one by one.
"""

from __future__ import annotations

import base64
import ipaddress
import os
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

VALID_FOR = timedelta(days=90)
RENEWED_BEFORE = timedelta(days=30)
# Time for every API server to see the changed configuration, and for all replicas to read the Secret.
SETTLES_IN = timedelta(minutes=10)
# With so little time left, a certificate that may not be trusted everywhere is better than an expired one.
LAST_MOMENT = timedelta(days=1)
_CLOCK_SKEW = timedelta(minutes=5)


class Material(Struct, frozen=True):
    """The certificates and keys that the replicas share. `next_…` is set during a rotation."""

    authorities: bytes  # PEM, the newest first
    certificate: bytes
    key: bytes
    next_certificate: bytes = b""
    next_key: bytes = b""

    def __repr__(self) -> str:
        return f"Material(certificate until {_read(self.certificate).not_valid_after_utc:%Y-%m-%d %H:%M})"

    def as_secret(self) -> dict[str, Any]:
        """The data of the Secret; None removes a field."""
        fields = {
            "ca.crt": self.authorities,
            "tls.crt": self.certificate,
            "tls.key": self.key,
            "next-tls.crt": self.next_certificate,
            "next-tls.key": self.next_key,
        }
        return {name: base64.b64encode(value).decode() if value else None for name, value in fields.items()}

    @classmethod
    def of_secret(cls, data: dict[str, str]) -> Material | None:
        """Read the Secret's data; None if it has no usable certificate."""
        try:
            found = {name: base64.b64decode(text, validate=True) for name, text in data.items()}
            material = cls(
                found["ca.crt"], found["tls.crt"], found["tls.key"],
                found.get("next-tls.crt", b""), found.get("next-tls.key", b""),
            )  # fmt: skip
            for certificate in (material.certificate, *([material.next_certificate] if material.next_key else [])):
                _read(certificate)
            x509.load_pem_x509_certificates(material.authorities)
            serving_context(material.certificate, material.key)
        except (KeyError, ValueError, ssl.SSLError):
            return None
        return material


class Step(Enum):
    KEEP = "keep"
    MAKE = "make"  # there is no usable certificate: create and serve one at once
    STAGE = "stage"  # add a new authority to the CA bundle
    PROMOTE = "promote"  # serve the certificate that the new authority signed


def next_step(material: Material | None, hosts: Sequence[str], now: datetime, *, trusted: bool) -> Step:
    """The leader's next step for the certificate. `trusted`: all authorities are in the CA bundle."""
    if material is None:
        return Step.MAKE
    current = _read(material.certificate)
    left = current.not_valid_after_utc - now
    if left <= timedelta(0) or current.not_valid_before_utc > now or not _covers(current, hosts):
        return Step.MAKE
    if material.next_certificate:
        staged = _read(material.next_certificate).not_valid_before_utc + _CLOCK_SKEW
        if (trusted and now - staged >= SETTLES_IN) or left <= LAST_MOMENT:
            return Step.PROMOTE
        return Step.KEEP
    return Step.STAGE if left <= RENEWED_BEFORE else Step.KEEP


def take_step(step: Step, material: Material | None, hosts: Sequence[str], now: datetime) -> Material | None:
    match step:
        case Step.MAKE:
            authority, certificate, key = make_certificate(hosts, now)
            return Material(authority + _newest(material), certificate, key)
        case Step.STAGE if material is not None:
            authority, certificate, key = make_certificate(hosts, now)
            return Material(authority + _newest(material), material.certificate, material.key, certificate, key)
        case Step.PROMOTE if material is not None:
            return Material(material.authorities, material.next_certificate, material.next_key)
        case _:
            return material


def make_certificate(hosts: Sequence[str], now: datetime) -> tuple[bytes, bytes, bytes]:
    """Create an authority, a certificate for these names and addresses, and its key; all as PEM."""
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"plimsoll webhook {now:%Y-%m-%d %H:%M:%S}")])
    own_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "plimsoll webhook")])

    def builder(subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(authority_name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _CLOCK_SKEW)
            .not_valid_after(now + VALID_FOR)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        )

    signs = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    authority = (
        builder(authority_name, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(signs, critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    certificate = (
        builder(own_name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
        )
        .sign(authority_key, hashes.SHA256())
    )  # fmt: skip
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return authority.public_bytes(pem), certificate.public_bytes(pem), private


def serving_context(certificate: bytes, key: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.num_tickets = 0  # an API server never resumes a session, so tickets would be wasted work
    load_certificate(context, certificate, key)
    return context


def load_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Use this certificate for all new connections."""
    with _as_file(certificate.rstrip() + b"\n" + key) as path:
        context.load_cert_chain(path)


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A file with this content, because OpenSSL loads certificates only from files. It is in memory where the system supports it:
    the key never reaches a disk, and the file system may be read-only."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("plimsoll-webhook")
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{descriptor}"
    else:
        with tempfile.TemporaryDirectory(prefix="plimsoll-") as directory:
            path = Path(directory) / "webhook.pem"
            path.touch(mode=0o600)
            path.write_bytes(content)
            yield str(path)


def _newest(material: Material | None) -> bytes:
    """The newest authority in the bundle."""
    if material is None:
        return b""
    end = b"-----END CERTIFICATE-----\n"
    first, found, _ = material.authorities.partition(end)
    return first + found


def _read(certificate: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(certificate)


def _covers(certificate: x509.Certificate, hosts: Sequence[str]) -> bool:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    return all(_general_name(host) in names for host in hosts)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
