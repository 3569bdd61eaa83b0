"""A list of the VPSie API, whole: every page of it, or an error."""

from __future__ import annotations

from typing import Any, TypeVar

from plimsoll.providers.errors import ProviderUnreachable
from plimsoll.providers.vpsie.api import VpsieApi
from plimsoll.providers.vpsie.replies import Garbled, Pages, as_type

T = TypeVar("T")

_LOOKS = 3  # a list that changes while its pages are read may lose a row between two of them


async def whole_list(api: VpsieApi, path: str, row: type[T]) -> list[T]:
    """All rows. ProviderUnreachable where VPSie shows fewer than it says there are, or something that is no list.

    A node group that took a part for the whole would make machines anew that it has.
    """
    for _ in range(_LOOKS):
        rows, total = await _rows(api, path)
        if total is None or len(rows) >= total:
            try:
                return [as_type(each, row, f"a row of GET {path}") for each in rows]
            except Garbled as error:
                raise ProviderUnreachable(f"GET {path}: the list cannot be read: {error}") from error
    raise ProviderUnreachable(f"GET {path}: VPSie shows {len(rows)} of {total}, {_LOOKS} times")


async def _rows(api: VpsieApi, path: str) -> tuple[list[Any], int | None]:
    """The rows of all pages, each once, and how many VPSie says there are."""
    found, pages = _page(await api.read(path), path)
    rows = {_identity(each): each for each in found}
    number = 1
    while found and _more(len(rows), number, pages):
        number += 1
        found, pages = _page(await api.read(path, {"page": str(number)}), path)
        known = len(rows)
        rows.update((_identity(each), each) for each in found)
        if len(rows) == known:
            break  # the same page again: there are no others to be had
    return list(rows.values()), pages.total


def _more(shown: int, number: int, pages: Pages) -> bool:
    if pages.total_pages is not None:
        return number < pages.total_pages
    return pages.total is not None and shown < pages.total


def _page(document: Any, path: str) -> tuple[list[Any], Pages]:
    rows = document.get("data") if isinstance(document, dict) else document
    if not isinstance(rows, list):
        raise ProviderUnreachable(f"GET {path}: the reply holds no list, so nothing is known")
    if not isinstance(document, dict):
        return rows, Pages()
    try:
        pages = as_type(document.get("pagination") or {"total": document.get("total")}, Pages, f"pages of GET {path}")
    except Garbled as error:
        raise ProviderUnreachable(f"GET {path}: the list cannot be read: {error}") from error
    return rows, pages


def _identity(row: Any) -> Any:
    """Rows of offerings come once for each datacenter."""
    return (str(row.get("id")), str(row.get("datacenter_id"))) if isinstance(row, dict) else str(row)
