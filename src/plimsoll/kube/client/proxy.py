"""The HTTP proxy for the API server, from the kubeconfig or the environment."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from yarl import URL

from plimsoll.kube.addresses import is_loopback
from plimsoll.kube.client.errors import CredentialsError


def proxy_for(server: str, env: Mapping[str, str]) -> URL | None:
    """The proxy that the environment sets for a server, by kubectl's rules.

    HTTPS_PROXY or HTTP_PROXY by the server's scheme, also in lower case. NO_PROXY lists hosts, domains, addresses and networks
    that are reached directly. Loopback addresses never use a proxy.
    """
    url = URL(server)
    host = url.host or ""
    name = f"{url.scheme}_proxy"
    value = env.get(name.upper()) or env.get(name) or ""
    if not value or is_loopback(host):
        return None
    exceptions = env.get("NO_PROXY") or env.get("no_proxy") or ""
    if any(_matches(entry.strip().lower(), host.lower(), url.port) for entry in exceptions.split(",")):
        return None
    return parse_proxy(value if "://" in value else f"http://{value}", f"environment variable {name.upper()}")


def parse_proxy(value: str, field: str) -> URL:
    try:
        url = URL(value)
    except ValueError:
        url = URL()
    if url.scheme not in ("http", "https") or not url.host:
        # Do not show the value: it may contain a password.
        shown = f"the scheme {url.scheme!r}" if url.scheme and url.host else "something else"
        raise CredentialsError(f"{field}: expected http://HOST:PORT or https://HOST:PORT, got {shown}")
    return url


def _matches(entry: str, host: str, port: int | None) -> bool:
    if not entry:
        return False
    if entry == "*":
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        pass  # one of the two is a name, or the entry carries a port
    name, colon, wanted_port = entry.rpartition(":")
    if colon and wanted_port.isdigit():
        if int(wanted_port) != port:
            return False
        entry = name.strip("[]")
    entry = entry.removeprefix("*")
    if entry.startswith("."):
        return host.endswith(entry)
    return host == entry or host.endswith(f".{entry}")
