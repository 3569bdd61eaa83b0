"""Complete lists of the VPSie API: every page, or an error."""

from __future__ import annotations

from typing import Any, TypeVar

from plimsoll.providers.errors import ProviderUnreachable
from plimsoll.providers.vpsie.api import VpsieApi
from plimsoll.providers.vpsie.replies import Pages, UnexpectedReply, as_type

T = TypeVar("T")

_ATTEMPTS = 3  # a row may get lost between two pages if the list changes while they are read


async def list_all_pages(api: VpsieApi, path: str, row: type[T]) -> list[T]:
    """All rows. Raises ProviderUnreachable if VPSie returns fewer than it counts, or no list.

    With an incomplete list, node groups would order machines again that they have.
    """
    for _ in range(_ATTEMPTS):
        rows, total = await _rows(api, path)
        if total is None or len(rows) >= total:
            try:
                return [as_type(each, row, f"a row of GET {path}") for each in rows]
            except UnexpectedReply as error:
                raise ProviderUnreachable(f"GET {path}: the list cannot be read: {error}") from error
    raise ProviderUnreachable(f"GET {path}: VPSie returned {len(rows)} of {total} rows, {_ATTEMPTS} times")


async def _rows(api: VpsieApi, path: str) -> tuple[list[Any], int | None]:
    """The rows of all pages, each once, and the total that VPSie reports."""
    found, pages = _page(await api.read(path), path)
    rows = {_identity(each): each for each in found}
    number = 1
    while found and _more(len(rows), number, pages):
        number += 1
        found, pages = _page(await api.read(path, {"page": str(number)}), path)
        known = len(rows)
        rows.update((_identity(each), each) for each in found)
        if len(rows) == known:
            break  # the same page again: there are no more
    return list(rows.values()), pages.total


def _more(shown: int, number: int, pages: Pages) -> bool:
    if pages.total_pages is not None:
        return number < pages.total_pages
    return pages.total is not None and shown < pages.total


def _page(document: Any, path: str) -> tuple[list[Any], Pages]:
    rows = document.get("data") if isinstance(document, dict) else document
    if not isinstance(rows, list):
        raise ProviderUnreachable(f"GET {path}: the reply contains no list")
    if not isinstance(document, dict):
        return rows, Pages()
    try:
        pages = as_type(document.get("pagination") or {"total": document.get("total")}, Pages, f"pages of GET {path}")
    except UnexpectedReply as error:
        raise ProviderUnreachable(f"GET {path}: the list cannot be read: {error}") from error
    return rows, pages


def _identity(row: Any) -> Any:
    """Offerings have one row per datacenter."""
    return (str(row.get("id")), str(row.get("datacenter_id"))) if isinstance(row, dict) else str(row)
