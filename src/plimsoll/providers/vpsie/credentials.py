"""VPSie credentials from a Secret: `clientId` and `clientSecret`, or `token`; optionally `url`.

No repr, message or log contains a secret.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from msgspec import Struct
from yarl import URL

from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import KubeError, NotFound
from plimsoll.kube.types.resources import SECRETS
from plimsoll.providers.errors import ProviderUnreachable, Unauthorised

DEFAULT_URL = "https://api.vpsie.com/v2"

ReadSecret: TypeAlias = Callable[[], Awaitable[Mapping[str, str]]]  # its data, in base64 as the API server has it


class VpsieCredentials(Struct, frozen=True):
    url: str
    token: str = ""
    client_id: str = ""
    client_secret: str = ""

    def __repr__(self) -> str:
        return f"Credentials({self.url}, …)"

    def scrub(self, text: str, *more: str) -> str:
        """The text with every secret replaced."""
        for secret in sorted((self.token, self.client_secret, self.client_id, *more), key=len, reverse=True):
            if secret:
                text = text.replace(secret, "…")
        return text


def secret_in_cluster(client: Client, namespace: str, name: str) -> ReadSecret:
    async def read() -> Mapping[str, str]:
        try:
            return (await client.get(SECRETS, namespace, name)).data
        except NotFound:
            raise Unauthorised(
                f"there is no Secret {namespace}/{name}; create it with clientId and clientSecret, or with token, or name "
                "another by providers.vpsie.secretName and providers.vpsie.secretNamespace"
            ) from None
        except KubeError as error:
            raise ProviderUnreachable(f"Secret {namespace}/{name} cannot be read: {error}") from error

    return read


def parse_credentials(data: Mapping[str, str]) -> VpsieCredentials:
    """Raises Unauthorised if the Secret is invalid; the message names the field, never its value."""
    url = (_text(data, "url") or DEFAULT_URL).rstrip("/")
    _check_url(url)
    token = _text(data, "token")
    if token:
        return VpsieCredentials(url, token=token)
    client_id, client_secret = _text(data, "clientId"), _text(data, "clientSecret")
    if not client_id or not client_secret:
        missing = " and ".join(name for name in ("clientId", "clientSecret") if not _text(data, name))
        raise Unauthorised(f"the Secret for VPSie has no {missing}, and no token instead")
    return VpsieCredentials(url, client_id=client_id, client_secret=client_secret)


def _text(data: Mapping[str, str], name: str) -> str:
    try:
        # A pasted token often ends with a line break, which is not allowed in a header.
        text = base64.b64decode(data.get(name) or "", validate=True).decode().strip()
    except (binascii.Error, UnicodeDecodeError):
        raise Unauthorised(f"the Secret for VPSie has a {name} that is not text") from None
    if not text.isprintable():
        raise Unauthorised(f"the Secret for VPSie has a {name} with characters that cannot be sent")
    return text


def _check_url(text: str) -> None:
    try:
        url = URL(text)
    except ValueError:
        url = URL()
    if url.user or url.password:
        raise Unauthorised(
            "the url in the Secret for VPSie holds a user or a password; put them into fields of their own"
        )
    if url.scheme == "http" and url.host in ("127.0.0.1", "::1", "localhost"):
        return  # local traffic
    if url.scheme != "https" or not url.host or url.query_string or url.fragment:
        raise Unauthorised("the url in the Secret for VPSie is not one like https://api.vpsie.com/v2")
