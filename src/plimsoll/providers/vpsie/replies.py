"""Replies of the VPSie API. Ids are numbers or strings, fields may be null, and a reply may be just `true`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import Struct, field

T = TypeVar("T")
Id: TypeAlias = int | str | None


class UnexpectedReply(Exception):
    """JSON that does not match the API."""


class Vm(Struct, frozen=True):
    id: Id = None
    identifier: str | None = None
    hostname: str | None = None
    name: str | None = None
    status: str | None = None
    state: str | None = None
    default_ip: str | None = None
    default_ipv6: str | None = None
    private_ip: str | None = None
    boxsize_id: Id = None
    datacenter_id: Id = None
    datacenter: str | None = field(default=None, name="dcIdentifier")
    created_on: str | None = None
    tags: Any = None  # a list of strings or of objects with a name, or null
    notes: str | None = None
    is_deleted: int | bool | None = None

    @property
    def tag_names(self) -> tuple[str, ...]:
        names = [tag.get("name") if isinstance(tag, dict) else tag for tag in self.tags if tag] if self.tags else []
        return tuple(str(name) for name in names)


class ClusterNode(Struct, frozen=True):
    identifier: str
    hostname: str | None = None
    default_ip: str | None = None
    private_ip: str | None = None


class VpsieCluster(Struct, frozen=True):
    nodes: tuple[ClusterNode, ...]  # including control plane nodes, which exist before any order


class NodeGroupRow(Struct, frozen=True):
    """A node group of VPSie, whose nodes have one size."""

    id: int
    group_name: str | None = None
    boxsize_id: Id = None
    is_deleted: int | bool | None = None


class OfferingRow(Struct, frozen=True):
    id: Id
    name: str | None = None
    cpu: float | None = None
    ram: float | None = None  # MB
    disk: float | None = None  # GB
    price: float | None = None  # per month
    hourly_price: float | None = None
    available: bool | None = None
    datacenter_id: Id = None


class Pages(Struct, frozen=True):
    total: int | None = None
    current_page: int | None = None
    total_pages: int | None = None


class AccessToken(Struct, frozen=True):
    token: str = ""
    expires: str = ""

    def __repr__(self) -> str:
        return "AccessToken(…)"


class Grant(Struct, frozen=True):
    access_token: AccessToken = field(default=AccessToken(), name="accessToken")


def refusal_of(document: Any) -> tuple[int, str] | None:
    """The code and message of a refusal, whatever the HTTP status: `{"error": true, "code": 402, …}`."""
    if not isinstance(document, dict) or not document.get("error"):
        return None
    code, error = document.get("code"), document["error"]
    words = [error if isinstance(error, str) else "", document.get("message") or ""]
    message = ": ".join(str(word) for word in words if word) or "no reason given"
    return (code if isinstance(code, int) else 0), message


def data_of(document: Any) -> Any:
    """The payload of a reply: its `data`, or all of it."""
    return document["data"] if isinstance(document, dict) and "data" in document else document


def as_type(value: Any, kind: type[T], what: str) -> T:
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        raise UnexpectedReply(f"{what}: {error}") from error


def parse_vpsie_time(text: str | None) -> datetime | None:
    """RFC 3339, or a database timestamp, which is in UTC."""
    try:
        time = datetime.fromisoformat((text or "").strip())
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
