"""Who we are to the API server and where it is: kubeconfig files, a pod's service account, and what they refer to."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol


class Credentials(Protocol):
    """What a client needs to know to speak with one API server."""

    @property
    def server(self) -> str:
        """The base URL, without a slash at its end."""
        ...

    @property
    def namespace(self) -> str: ...

    def ssl_context(self) -> ssl.SSLContext | None: ...

    async def authorization(self) -> Mapping[str, str]:
        """The headers that say who we are, renewed where they have expired."""
        ...


def load_credentials(
    kubeconfig: Path | None = None, context: str | None = None, env: Mapping[str, str] = os.environ
) -> Credentials:
    raise NotImplementedError
