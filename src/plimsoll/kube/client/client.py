"""The Kubernetes client: the verbs of the API, with time-outs and typed errors. It retries a write only if that is idempotent.

If the reply to a write is lost:

- A write with a resourceVersion (patch), a fixed name (create) or a UID (delete) is sent again. If the server then refuses it
  because the first attempt was applied, the live object is compared with the wanted one to find out.
- Any other write, including an eviction, ends as `Ambiguous`. The UID protects another pod of the same name from eviction, but
  not its budget: the API server charges the PodDisruptionBudget before it checks the UID. And the client cannot check again
  what justified the eviction (leadership, the ledger, a fresh view). So the controller decides again.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, Self, TypeVar

import msgspec

from plimsoll.kube.client.credentials import Credentials
from plimsoll.kube.client.envelopes import ListMetadata
from plimsoll.kube.client.errors import (
    AlreadyExists,
    Ambiguous,
    ApiError,
    Conflict,
    Gone,
    Invalid,
    MalformedResponse,
    NotFound,
    Unauthorized,
    excerpt,
)
from plimsoll.kube.client.lost_replies import json_patch_holds, merge_holds
from plimsoll.kube.client.rate_limit import RateLimit
from plimsoll.kube.client.retries import Attempts, RetrySafety
from plimsoll.kube.client.transport import ApiCall, HttpTransport, RequestObserver, Transport
from plimsoll.kube.codec import decode, decode_object, encode
from plimsoll.kube.types.meta import KubeObject, Part
from plimsoll.kube.types.resources import PODS, Resource
from plimsoll.runtime.clock import Clock

T = TypeVar("T", bound=KubeObject)
V = TypeVar("V")

PatchForm = Literal["merge", "strategic", "json", "apply"]
_CONTENT_TYPES: Mapping[PatchForm, str] = {
    "merge": "application/merge-patch+json",
    # The same as a merge patch if it has no lists. Custom resources refuse it. The API server need not convert the object to JSON
    # and back, which for a pod saves a fifth of the cost of the write.
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",  # JSON is YAML
}
# For a kind that is decoded as metadata only: the server then encodes only the metadata. A server without support sends the
# whole object.
_METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
_METHODS = {"get": "GET", "list": "GET", "create": "POST", "patch": "PATCH", "delete": "DELETE"}
_FIELD_MANAGER = "plimsoll"
_PAGE_SIZE = 500


@dataclass(frozen=True)
class Listing(Generic[T]):
    """All objects of a kind at one resourceVersion."""

    items: tuple[T, ...]
    resource_version: str


class _Page(Part, Generic[T], frozen=True, gc=False):
    metadata: ListMetadata
    items: tuple[T, ...] | None = None


class Client:
    def __init__(
        self,
        credentials: Credentials,
        *,
        clock: Clock,
        qps: float = 50,
        burst: int = 100,
        timeout_seconds: float = 30,
        observe: RequestObserver | None = None,
        rng: random.Random | None = None,
        transport: Transport | None = None,
    ) -> None:
        """
        timeout_seconds: limit for a call with its retries, not counting the wait for the rate limit. One attempt gets half of
        it, so that a dead connection leaves time for a second; a write that is never retried gets all of it.
        observe: called for every attempt with verb, plural, status (0: no reply) and seconds.
        transport: replaces HTTP to the credentials' server.
        """
        self._credentials = credentials
        self._transport = transport or HttpTransport(credentials, clock, observe)
        self._limit = RateLimit(qps, burst, clock)
        self._attempts = Attempts(
            self._transport, credentials, self._limit, clock,
            rng or random.Random(),  # noqa: S311 (spreads load, hides nothing)
            timeout_seconds=timeout_seconds,
        )  # fmt: skip

    @property
    def server(self) -> str:
        """The base URL of the API server."""
        return self._credentials.server

    @property
    def cluster_name(self) -> str:
        """What people call the cluster: the kubeconfig context, else the API server's URL."""
        return self._credentials.context or self._credentials.server

    async def close(self) -> None:
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def get(self, resource: Resource[T], namespace: str, name: str, *, urgent: bool = False) -> T:
        call = _call("get", resource, namespace, name, urgent=urgent)
        return _decoded(call, await self._attempts.perform(call, RetrySafety.READ), resource.type)

    async def list(
        self, resource: Resource[T], namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> Listing[T]:
        """All objects, read from a quorum: without a resourceVersion the server must not answer from its cache."""
        selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        params = {name: value for name, value in selectors.items() if value}
        try:
            return await self._list_paged(resource, namespace, {**params, "limit": str(_PAGE_SIZE)})
        except Gone:
            # The snapshot behind the continue token expired; a list in a single request needs none.
            return await self._list_paged(resource, namespace, params)

    async def _list_paged(self, resource: Resource[T], namespace: str, params: dict[str, str]) -> Listing[T]:
        items: list[T] = []
        while True:
            call = replace(_call("list", resource, namespace), params=params)
            page = _decoded(call, await self._attempts.perform(call, RetrySafety.READ), _Page[resource.type])  # type: ignore[name-defined]
            items += page.items or ()
            if not page.metadata.continue_:
                return Listing(tuple(items), page.metadata.resource_version)
            params = {**params, "continue": page.metadata.continue_}

    async def read(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        """The JSON body of a GET."""
        call = ApiCall("GET", path, "list", f"read {path}", params=params or {})
        reply = await self._attempts.perform(call, RetrySafety.READ)
        if not reply.lstrip().startswith(b"{"):
            raise MalformedResponse(f"{call.what}: the reply is not JSON (a proxy in between?): {excerpt(reply)}")
        return reply

    def watch(
        self, path: str, params: Mapping[str, str], *, idle_seconds: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The bytes of a watch as they arrive, in chunks of any size.

        The iterator ends when the server ends the watch, and raises Unreachable when the connection breaks or is silent for
        `idle_seconds`. It does not retry: the reflector knows from where to continue.
        """
        call = ApiCall("GET", path, "watch", f"watch {path}", params={**params, "watch": "true"})
        return self._stream(call, idle_seconds)

    def stream(
        self, path: str, params: Mapping[str, str], *, idle_seconds: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The JSON body of a GET in chunks, for large bodies. It does not retry."""
        return self._stream(ApiCall("GET", path, "list", f"list {path}", params=params), idle_seconds)

    @asynccontextmanager
    async def _stream(self, call: ApiCall, idle_seconds: float) -> AsyncIterator[AsyncIterator[bytes]]:
        await self._limit.take()
        async with AsyncExitStack() as stack:
            try:
                chunks = await stack.enter_async_context(self._transport.stream(call, idle_seconds))
            except Unauthorized:
                if not self._credentials.refused():
                    raise
                chunks = await stack.enter_async_context(self._transport.stream(call, idle_seconds))
            yield chunks

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def create(
        self,
        resource: Resource[T],
        namespace: str,
        body: Mapping[str, Any],
        *,
        dry_run: bool = False,
        urgent: bool = False,
    ) -> T:
        name = body.get("metadata", {}).get("name", "")
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        call = _call("create", resource, namespace, urgent=urgent)
        call = replace(
            call,
            what=f"{call.what}/{name}" if name else call.what,
            params=_params(dry_run=dry_run, fieldManager=_FIELD_MANAGER),
            body=encode(whole),
        )

        async def settle(refusal: ApiError) -> bytes | None:
            if not isinstance(refusal, AlreadyExists):
                return None
            live = await self._live(resource, namespace, name, urgent=urgent)
            return live if merge_holds(msgspec.json.decode(live), whole) else None

        # With `generateName`, each retry would create another object.
        guard = RetrySafety.GUARDED if name else RetrySafety.UNGUARDED
        return _decoded(call, await self._attempts.perform(call, _unless(dry_run, guard), settle), resource.type)

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
        """Patch an object; raises Conflict if it is not the one with `uid`, or not at `resource_version`."""
        if uid and subresource and form != "json" and not resource_version:
            raise ValueError(
                f"patch {resource.plural}/{subresource}: the API server ignores the uid in a {form} patch of a custom "
                "resource's status; pass resource_version, too, or form='json'"
            )
        guards = {field: value for field, value in (("uid", uid), ("resourceVersion", resource_version)) if value}
        whole = _guarded_body(resource, name, body, form, guards)
        call = _call("patch", resource, namespace, name, subresource, urgent=urgent)
        params = _params(dry_run=dry_run, fieldManager=_FIELD_MANAGER)
        if form != "apply":
            # By default the server also decodes the whole object strictly, to produce warnings that nothing here reads.
            params["fieldValidation"] = "Ignore"
        elif force:
            params["force"] = "true"
        accept = _METADATA_ONLY if resource.type is KubeObject else call.accept
        call = replace(call, params=params, body=encode(whole), content_type=_CONTENT_TYPES[form], accept=accept)
        # The object contains its status, and the permission to read the object is always there.
        compared_at = "" if subresource == "status" else subresource

        async def settle(refusal: ApiError) -> bytes | None:
            # A 422 without a reason means that a JSON patch's test of the resourceVersion failed.
            if not isinstance(refusal, Conflict) and not (form == "json" and isinstance(refusal, Invalid)):
                return None
            live = await self._live(resource, namespace, name, compared_at, urgent=urgent)
            document = msgspec.json.decode(live)
            if uid and document["metadata"].get("uid") != uid:
                return None
            holds = json_patch_holds(document, body) if form == "json" else merge_holds(document, body)
            return live if holds else None

        guard = RetrySafety.GUARDED if resource_version else RetrySafety.UNGUARDED
        try:
            reply = await self._attempts.perform(call, _unless(dry_run, guard), settle)
        except Invalid as error:
            # The server answers a wrong uid with 422: "immutable" for a merge patch, without a reason for a JSON patch.
            other = any(cause.startswith("metadata.uid:") for cause in error.causes)
            if form == "json" and not error.causes:
                other = await self._is_another(resource, namespace, name, uid, resource_version)
            if other:
                message = f"{error.message} (the object was replaced or changed)"
                raise Conflict(409, "Conflict", message, causes=error.causes, request=error.request) from error
            raise
        return _decoded(call, reply, resource.type)

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
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": _preconditions(f"delete {resource.plural}", uid, resource_version),
        }
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        call = _call("delete", resource, namespace, name)
        call = replace(call, params=_params(dry_run=dry_run), body=encode(options))

        async def settle(refusal: ApiError) -> bytes | None:
            if isinstance(refusal, NotFound):
                return b""
            try:
                live = decode(await self._live(resource, namespace, name), KubeObject)
            except NotFound:
                return b""
            return b"" if live.uid != uid or live.terminating else None

        await self._attempts.perform(call, _unless(dry_run, RetrySafety.GUARDED), settle, destructive=True)

    async def evict(self, namespace: str, name: str, *, uid: str, dry_run: bool = False) -> None:
        options = {"preconditions": _preconditions("evict pods", uid)}
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": options,
        }
        call = _call("create", PODS, namespace, name, "eviction")
        call = replace(call, what=f"evict pod {namespace}/{name}", params=_params(dry_run=dry_run), body=encode(body))
        await self._attempts.perform(call, _unless(dry_run, RetrySafety.UNGUARDED), destructive=True)

    async def _live(
        self, resource: Resource[Any], namespace: str, name: str, subresource: str = "", *, urgent: bool = False
    ) -> bytes:
        return await self._attempts.perform(
            _call("get", resource, namespace, name, subresource, urgent=urgent), RetrySafety.READ
        )

    async def _is_another(
        self, resource: Resource[Any], namespace: str, name: str, uid: str, resource_version: str
    ) -> bool:
        metadata = decode(await self._live(resource, namespace, name), KubeObject).metadata
        return uid not in ("", metadata.uid) or resource_version not in ("", metadata.resource_version)


def _call(
    verb: str,
    resource: Resource[Any],
    namespace: str,
    name: str | None = None,
    subresource: str = "",
    *,
    urgent: bool = False,
) -> ApiCall:
    """A call on a collection (without a name) or on one object."""
    what = f"{verb} {resource.plural}{'/' if subresource else ''}{subresource}"
    if name is not None:
        # With an empty name the path would be the collection's, and a DELETE there deletes everything.
        if not name or "/" in name or "%" in name or name in (".", ".."):
            raise ValueError(f"{what}: invalid name {name!r}; expected the name of one object")
        if resource.namespaced and not namespace:
            raise ValueError(f"{what} {name}: the namespace is empty; {resource.plural} are namespaced")
    if "/" in namespace or "%" in namespace or namespace in (".", ".."):
        raise ValueError(f"{what}: invalid namespace {namespace!r}; expected the name of one namespace")
    place = "/".join(part for part in (namespace if resource.namespaced else "", name) if part)
    path = resource.path(namespace, name or "", subresource)
    return ApiCall(_METHODS[verb], path, verb, f"{what} {place}".rstrip(), urgent=urgent)


def _params(*, dry_run: bool, **params: str) -> dict[str, str]:
    return {**params, "dryRun": "All"} if dry_run else params


def _unless(dry_run: bool, guard: RetrySafety) -> RetrySafety:
    return RetrySafety.READ if dry_run else guard


def _preconditions(what: str, uid: str, resource_version: str = "") -> dict[str, str]:
    if not uid:
        raise ValueError(f"{what}: the uid is empty; it is required because names are reused")
    return {"uid": uid, "resourceVersion": resource_version} if resource_version else {"uid": uid}


def _guarded_body(
    resource: Resource[Any], name: str, body: Any, form: PatchForm, guards: Mapping[str, str]
) -> Mapping[str, Any] | Sequence[Any]:
    """The patch with preconditions, so that the server refuses it if the object was replaced or changed."""
    if form == "json":
        tests = [{"op": "test", "path": f"/metadata/{field}", "value": value} for field, value in guards.items()]
        return [*tests, *body]
    metadata = {**body.get("metadata", {}), **guards}
    if form == "apply":
        metadata["name"] = name
        return {"apiVersion": resource.api_version, "kind": resource.kind, **body, "metadata": metadata}
    return {**body, "metadata": metadata} if metadata else body


def _decoded(call: ApiCall, reply: bytes, kind: type[V]) -> V:
    try:
        return decode_object(reply, kind)
    except (msgspec.DecodeError, RecursionError) as error:  # also JSON of another shape
        is_json = isinstance(error, msgspec.ValidationError)
        shown = "" if is_json else f": {excerpt(reply)}"
        text = f"{call.what}: unexpected reply: {error}{shown}"
        if call.reads:
            raise MalformedResponse(text) from error
        raise Ambiguous(f"{text}; the change may have been applied") from error
