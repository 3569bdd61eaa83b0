"""The verbs of the Kubernetes API, with time-outs and typed errors; a write is repeated only where that is harmless."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Generic, Literal, Self, TypeVar

from plimsoll.clock import Clock
from plimsoll.kube.credentials import Credentials
from plimsoll.kube.resources import Resource
from plimsoll.kube.types import KubeObject

T = TypeVar("T", bound=KubeObject)

PatchForm = Literal["merge", "json", "apply"]


@dataclass(frozen=True)
class Listing(Generic[T]):
    """All objects of a kind at one moment."""

    items: tuple[T, ...]
    resource_version: str


class Client:
    def __init__(
        self,
        credentials: Credentials,
        *,
        clock: Clock,
        qps: float = 50,
        burst: int = 100,
        timeout_seconds: float = 30,
        observe: Callable[..., None] | None = None,
        rng: random.Random | None = None,
    ) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def get(self, resource: Resource[T], namespace: str, name: str, *, urgent: bool = False) -> T:
        raise NotImplementedError

    async def list(
        self, resource: Resource[T], namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> Listing[T]:
        raise NotImplementedError

    async def read(self, path: str, params: Mapping[str, str] = {}) -> bytes:
        raise NotImplementedError

    def watch(
        self, path: str, params: Mapping[str, str], *, idle_seconds: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise NotImplementedError

    async def create(
        self,
        resource: Resource[T],
        namespace: str,
        body: Mapping[str, Any],
        *,
        dry_run: bool = False,
        urgent: bool = False,
    ) -> T:
        raise NotImplementedError

    async def patch(
        self,
        resource: Resource[T],
        namespace: str,
        name: str,
        body: Any,
        *,
        form: PatchForm = "merge",
        uid: str = "",
        resource_version: str = "",
        subresource: str = "",
        force: bool = False,
        dry_run: bool = False,
        urgent: bool = False,
    ) -> T:
        raise NotImplementedError

    async def delete(
        self,
        resource: Resource[Any],
        namespace: str,
        name: str,
        *,
        uid: str,
        resource_version: str = "",
        grace_seconds: int | None = None,
        dry_run: bool = False,
    ) -> None:
        raise NotImplementedError

    async def evict(self, namespace: str, name: str, *, uid: str, dry_run: bool = False) -> None:
        raise NotImplementedError
