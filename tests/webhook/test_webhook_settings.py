"""Where the webhook is reached, and settings that contradict each other."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from plimsoll.config import Config, Webhook
from plimsoll.config.sources import ConfigurationError
from plimsoll.runtime.clock import RealClock
from plimsoll.webhook.certificate_sources import CertificateInFiles, CertificateInSecret
from plimsoll.webhook.service import certificate_for, own_address, url_for

HERE, THERE = "https://127.0.0.1:6443", "https://api.example.com:6443"


class Client:
    server = HERE


def certificate(**webhook: Any) -> Any:
    client: Any = Client()
    return certificate_for(Config(webhook=Webhook(**webhook)), client, RealClock())


@pytest.mark.parametrize(
    ("url", "api_server", "expected"),
    [
        ("", HERE, "https://127.0.0.1:9444/mutate"),
        ("", "https://localhost:6443", "https://127.0.0.1:9444/mutate"),
        ("", "https://[::1]:6443", "https://127.0.0.1:9444/mutate"),
        ("https://10.0.0.7:9443", THERE, "https://10.0.0.7:9443/mutate"),
        ("https://hooks.example.com/", HERE, "https://hooks.example.com/mutate"),
    ],
)
def test_the_address_that_the_api_server_is_given(url: str, api_server: str, expected: str):
    assert url_for(Config(webhook=Webhook(mode="url", url=url)), api_server, 9444) == expected


@pytest.mark.parametrize(
    ("url", "api_server"),
    [
        ("", THERE),
        ("http://10.0.0.7", HERE),
        ("10.0.0.7:9443", HERE),
        ("https://10.0.0.7/path", HERE),
        ("https://", HERE),
    ],
)
def test_an_address_that_cannot_work_is_refused_with_advice(url: str, api_server: str):
    with pytest.raises(ConfigurationError, match=r"webhook\.url"):
        url_for(Config(webhook=Webhook(mode="url", url=url)), api_server, 9443)


@pytest.mark.parametrize(
    ("host", "pod_ip", "expected"),
    [
        ("*", "10.1.2.3", "10.1.2.3:9443"),
        ("*", "fd00::7", "[fd00::7]:9443"),
        ("*", "", "127.0.0.1:9443"),
        ("127.0.0.1", "10.1.2.3", "127.0.0.1:9443"),
        ("::1", "", "[::1]:9443"),
    ],
)
def test_the_address_for_the_other_replicas(host: str, pod_ip: str, expected: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("POD_IP", pod_ip)
    assert own_address(Config(webhook=Webhook(host=host)), 9443) == expected


def test_where_the_certificate_comes_from():
    assert isinstance(certificate(mode="service"), CertificateInSecret)
    assert isinstance(certificate(mode="service", certificate_file="a.crt", key_file="a.key"), CertificateInFiles)


@pytest.mark.parametrize(
    ("webhook", "key"),
    [
        ({"certificate_file": "a.crt"}, "webhook.keyFile"),
        ({"key_file": "a.key"}, "webhook.certificateFile"),
        ({"timeout": timedelta(seconds=31)}, "webhook.timeout"),
    ],
)
def test_settings_that_cannot_be_followed_are_named(webhook: dict[str, Any], key: str):
    with pytest.raises(ConfigurationError) as caught:
        certificate(mode="service", **webhook)
    assert key in str(caught.value)
