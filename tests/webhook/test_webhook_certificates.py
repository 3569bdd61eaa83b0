"""The serving certificate over its life: made, trusted before it is served, replaced long before it ends."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from plimsoll.webhook.certificate_sources import CertificateInFiles, UnusableFilesError
from plimsoll.webhook.certificates import (
    LAST_MOMENT,
    RENEWED_BEFORE,
    SETTLES_IN,
    VALID_FOR,
    Material,
    Step,
    make_certificate,
    next_step,
    serving_context,
    take_step,
)

NOW = datetime.now(UTC).replace(microsecond=0)
HOSTS = ("plimsoll-webhook.home.svc", "127.0.0.1")


def made(at: datetime = NOW, hosts: Sequence[str] = HOSTS) -> Material:
    material = take_step(Step.MAKE, None, hosts, at)
    assert material is not None
    return material


def advance(material: Material, at: datetime, *, trusted: bool = True) -> tuple[Step, Material]:
    step = next_step(material, HOSTS, at, trusted=trusted)
    after = take_step(step, material, HOSTS, at)
    assert after is not None
    return step, after


async def serves(server: ssl.SSLContext, authorities: bytes, name: str = HOSTS[0]) -> bool:
    """Whether a client that trusts these authorities accepts what the server shows."""
    client = ssl.create_default_context(cadata=authorities.decode())

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    listener = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=server)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname=name)
        except ssl.SSLCertVerificationError:
            return False
        writer.close()
        return True


@pytest.mark.parametrize("name", HOSTS)
async def test_a_client_accepts_it_under_each_of_its_names(name: str):
    material = made()
    server = serving_context(material.certificate, material.key)
    assert await serves(server, material.authorities, name)
    assert not await serves(server, material.authorities, "another.example.com")
    assert not await serves(server, made().authorities, name)


def test_it_is_kept_until_a_third_of_its_life_is_left():
    material = made()
    assert advance(material, NOW)[0] is Step.KEEP
    assert advance(material, NOW + VALID_FOR - RENEWED_BEFORE - timedelta(minutes=1))[0] is Step.KEEP
    assert advance(material, NOW + VALID_FOR - RENEWED_BEFORE)[0] is Step.STAGE


async def test_throughout_a_rotation_what_is_served_is_trusted_by_everyone_who_heard_of_it():
    first = made(NOW - VALID_FOR + RENEWED_BEFORE)
    step, staged = advance(first, NOW)
    assert step is Step.STAGE
    assert staged.certificate == first.certificate
    before = serving_context(staged.certificate, staged.key)
    assert await serves(before, first.authorities)
    assert await serves(before, staged.authorities)
    assert advance(staged, NOW + SETTLES_IN - timedelta(seconds=1))[0] is Step.KEEP
    assert advance(staged, NOW + SETTLES_IN, trusted=False)[0] is Step.KEEP
    step, served = advance(staged, NOW + SETTLES_IN)
    assert step is Step.PROMOTE
    after = serving_context(served.certificate, served.key)
    assert await serves(after, staged.authorities)
    assert not await serves(after, first.authorities)
    assert served.authorities == staged.authorities  # a replica that still serves the old one stays trusted
    assert advance(served, NOW + SETTLES_IN)[0] is Step.KEEP
    again = advance(served, NOW + VALID_FOR)[1]
    assert again.authorities.count(b"BEGIN CERTIFICATE") == 2


def test_at_the_last_moment_it_is_served_whoever_trusts_it():
    staged = advance(made(NOW - VALID_FOR + RENEWED_BEFORE), NOW)[1]
    late = NOW + RENEWED_BEFORE - LAST_MOMENT
    assert advance(staged, late, trusted=False)[0] is Step.PROMOTE


@pytest.mark.parametrize(
    "unusable",
    [
        None,
        made(NOW - VALID_FOR - timedelta(days=1)),
        made(NOW + timedelta(days=1)),
        made(hosts=("elsewhere.svc",)),
    ],
    ids=["none", "expired", "of the future", "for other names"],
)
def test_what_cannot_be_used_is_replaced_at_once(unusable: Material | None):
    assert next_step(unusable, HOSTS, NOW, trusted=True) is Step.MAKE
    after = take_step(Step.MAKE, unusable, HOSTS, NOW)
    assert after is not None
    assert after.authorities.count(b"BEGIN CERTIFICATE") == (1 if unusable is None else 2)


def test_a_secret_holds_it_whole():
    staged = advance(made(NOW - VALID_FOR + RENEWED_BEFORE), NOW)[1]
    assert Material.of_secret(staged.as_secret()) == staged
    assert made().as_secret()["next-tls.key"] is None


@pytest.mark.parametrize("field", ["ca.crt", "tls.crt", "tls.key"])
@pytest.mark.parametrize("value", [None, "", "%%%", "aGVsbG8="])
def test_a_secret_that_was_spoilt_is_recognised(field: str, value: str | None):
    data = {name: text for name, text in made().as_secret().items() if text is not None}
    if value is None:
        del data[field]
    else:
        data[field] = value
    assert Material.of_secret(data) is None


def test_a_key_of_another_certificate_is_recognised():
    data = made().as_secret() | {"tls.key": made().as_secret()["tls.key"]}
    assert Material.of_secret({name: text for name, text in data.items() if text}) is None


def test_the_key_does_not_show():
    assert "KEY" not in repr(made())


async def test_files_are_read_again_when_someone_replaced_them(tmp_path: Path):
    paths = tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt"

    def write(authority: bytes, certificate: bytes, key: bytes) -> None:
        for path, content in zip(paths, (certificate, key, authority), strict=True):
            path.write_bytes(content)

    first, second = make_certificate(HOSTS, NOW), make_certificate(HOSTS, NOW)
    write(*first)
    source = CertificateInFiles(*paths)
    await source.refresh(leading=True, trusted=True)
    assert await serves(source.tls, first[0])
    write(second[0], second[1], first[2])  # the new key is not there yet
    await source.refresh(leading=True, trusted=True)
    assert await serves(source.tls, first[0])
    write(*second)
    await source.refresh(leading=True, trusted=True)
    assert await serves(source.tls, second[0])
    assert source.authorities == second[0]


async def test_files_that_are_not_there_are_named(tmp_path: Path):
    source = CertificateInFiles(tmp_path / "a.crt", tmp_path / "a.key", None)
    with pytest.raises(UnusableFilesError, match=r"webhook\.certificateFile .*a\.crt"):
        await source.refresh(leading=True, trusted=True)
