"""Server-sent events, as a page reads them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec


async def events(response: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, str, dict[str, Any]]]:
    """Kind, id and data of each; signs of life are passed over."""
    fields: dict[str, str] = {}
    rest = b""
    async for chunk in response.content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if not line:
                if fields.get("event") not in (None, "beat"):
                    yield fields["event"], fields["id"], msgspec.json.decode(fields["data"])
                fields = {}
            else:
                name, _, value = line.decode().partition(": ")
                fields[name] = value
