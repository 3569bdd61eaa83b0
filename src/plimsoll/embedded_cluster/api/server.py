"""Handles requests: maps paths to kinds and verbs, and returns each response in the requested representation."""

from __future__ import annotations

import importlib
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import structlog

from plimsoll.embedded_cluster.api import discovery, kinds, protobuf
from plimsoll.embedded_cluster.api.access_reviews import reviewed
from plimsoll.embedded_cluster.api.admission import WebhookCall
from plimsoll.embedded_cluster.api.event_versions import shown_form
from plimsoll.embedded_cluster.api.json_documents import Json, at, name_of, namespace_of
from plimsoll.embedded_cluster.api.kinds import ResourceKind
from plimsoll.embedded_cluster.api.lists import Lists
from plimsoll.embedded_cluster.api.metrics_api import MetricsApi
from plimsoll.embedded_cluster.api.objects import APPLY_FORMS, Objects
from plimsoll.embedded_cluster.api.scale import scale_of
from plimsoll.embedded_cluster.api.selectors import matcher
from plimsoll.embedded_cluster.api.status import (
    StatusError,
    bad_request,
    expired,
    forbidden,
    invalid_object,
    method_not_allowed,
    no_such_resource,
)
from plimsoll.embedded_cluster.api.storage import HISTORY, Storage
from plimsoll.embedded_cluster.api.tables import metadata_only, table
from plimsoll.embedded_cluster.api.watches import Watch
from plimsoll.embedded_cluster.timers import Timers

log = structlog.get_logger()

# Duration of a watch without timeoutSeconds.
_WATCH_SECONDS = 1800.0
_TRUE = ("true", "1", "True")


@dataclass(frozen=True)
class ApiRequest:
    method: str
    path: str
    params: Mapping[str, str]
    body: bytes = b""
    content_type: str = "application/json"
    accept: str = "application/json"
    user_agent: str = ""


@dataclass(frozen=True)
class ApiResponse:
    """A document, a watch, or plain text."""

    status: int
    body: Json | None = None
    watch: Watch | None = None
    retry_after_seconds: int | None = None
    text: str | None = None  # for the few endpoints that do not return JSON


class RequestObserver(Protocol):
    """Receives every request before it is handled, and then its response."""

    def request_received(self, request: ApiRequest) -> None: ...

    def response_sent(self, request: ApiRequest, answer: ApiResponse) -> None: ...


@dataclass(frozen=True)
class _Target:
    kind: ResourceKind
    namespace: str
    name: str
    subresource: str


class ApiServer:
    def __init__(
        self,
        timers: Timers,
        rng: random.Random,
        *,
        ask: WebhookCall | None = None,
        history: int = HISTORY,
        bookmark_seconds: float = 60.0,
        watch_seconds: float = 0.0,
    ) -> None:
        """watch_seconds: minimum duration of a watch; in long quiet simulations, reconnects would be most of the work."""
        self.storage = Storage(history)
        self.objects = Objects(self.storage, timers.clock, rng, ask)
        self.lists = Lists(self.storage)
        self.measurements = MetricsApi(self.storage)
        self.observers: list[RequestObserver] = []
        self._agenda = timers
        self._watches: dict[Watch, None] = {}
        self._watch_seconds = watch_seconds
        timers.call_every(bookmark_seconds, self.send_bookmarks)

    async def handle(self, request: ApiRequest) -> ApiResponse:
        for observer in self.observers:
            observer.request_received(request)
        answer = await self._handle(request)
        for observer in self.observers:
            observer.response_sent(request, answer)
        return answer

    async def _handle(self, request: ApiRequest) -> ApiResponse:
        try:
            return await self._answer(request)
        except StatusError as refusal:
            return ApiResponse(refusal.code, refusal.body(), retry_after_seconds=refusal.retry_after_seconds)
        except (TypeError, AttributeError, KeyError, IndexError, ValueError, msgspec.ValidationError) as error:
            # A malformed body. Nothing has been stored: storing is the last step of a write.
            log.info("malformed request", path=request.path, error=repr(error))
            unread = bad_request(f"the object provided is unrecognized: {error}")
            return ApiResponse(unread.code, unread.body())

    def send_bookmarks(self) -> None:
        self._watches = {watch: None for watch in self._watches if watch.open}
        for watch in self._watches:
            watch.bookmark(self.storage.revision)

    def close_watches(self) -> None:
        for watch in tuple(self._watches):
            watch.close()
        self._watches.clear()

    # ── paths ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _answer(self, request: ApiRequest) -> ApiResponse:
        parts = [part for part in request.path.split("/") if part]
        if parts[:1] == ["api"] and len(parts) > 2:
            target = self._target("", parts[1], parts[2:])
        elif parts[:1] == ["apis"] and len(parts) > 3:
            target = self._target(parts[1], parts[2], parts[3:])
        else:
            return self._about_itself(request, parts)
        if target.kind in kinds.COMPUTED:
            return self._answered(request, target)
        if target.name:
            return await self._one(request, target)
        return await self._many(request, target)

    def _answered(self, request: ApiRequest, target: _Target) -> ApiResponse:
        """Kinds that are computed instead of stored: metrics and access reviews."""
        kind, namespace, name, now = target.kind, target.namespace, target.name, self._agenda.clock.now()
        if kind in kinds.REVIEWS and request.method == "POST" and not name:
            return ApiResponse(201, reviewed(kind, _document(request)))
        if kind in kinds.REVIEWS or request.method != "GET" or request.params.get("watch") in _TRUE:
            raise method_not_allowed()
        found = self.measurements.one(kind, namespace, name, now) if name else None
        listed = found or self.measurements.listed(kind, namespace, request.params, now)
        if _wants_table(request):
            return ApiResponse(200, self._table(request, kind, [found] if found else listed["items"], {}))
        return ApiResponse(
            200, listed if found is None else {"kind": kind.kind, "apiVersion": kind.api_version, **found}
        )

    def _about_itself(self, request: ApiRequest, parts: list[str]) -> ApiResponse:
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed()
        served = self.objects.catalogue.all()
        body: Json | None = None
        match parts:
            case ["version"]:
                body = discovery.version_info()
            case ["healthz" | "livez" | "readyz", *_]:
                return ApiResponse(200, text="ok")
            case ["api"]:
                body = discovery.core_versions("127.0.0.1")
            case ["apis"]:
                body = discovery.groups(served)
            case ["apis", group]:
                body = discovery.group(group, served)
            case ["api", version]:
                body = discovery.resources("", version, served)
            case ["apis", group, version]:
                body = discovery.resources(group, version, served)
            case ["openapi", "v3"]:
                body = discovery.openapi_index(served)
            case ["openapi", "v3", *path]:
                body = discovery.openapi("/".join(path), served)
            case []:
                body = {"paths": ["/api", "/apis", "/healthz", "/openapi/v3", "/version"]}
        if body is None:
            raise no_such_resource()
        return ApiResponse(200, body)

    def _target(self, group: str, version: str, parts: list[str]) -> _Target:
        namespace = ""
        if parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in ("status", "finalize"):
            namespace, parts = parts[1], parts[2:]
        kind = self.objects.catalogue.find(group, version, parts[0])
        name, subresource = (*parts[1:], "", "")[:2]
        if kind is None or len(parts) > 3 or (namespace and not kind.namespaced):
            raise no_such_resource()
        if subresource and subresource not in (*kind.subresources, "finalize"):
            raise no_such_resource()
        return _Target(kind, namespace, name, subresource)

    # ── collections ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def _many(self, request: ApiRequest, target: _Target) -> ApiResponse:
        kind, params = target.kind, request.params
        match request.method:
            case "GET" if params.get("watch") in _TRUE:
                return ApiResponse(200, watch=self._watch(request, target))
            case "GET":
                listed = self.lists.page(kind, target.namespace, params)
                if _wants_table(request):
                    stored = [self.storage.get(kind, namespace_of(one), name_of(one)) or one for one in listed["items"]]
                    return ApiResponse(200, self._table(request, kind, stored, listed["metadata"]))
                return ApiResponse(200, listed)
            case "POST":
                if kind.namespaced and not target.namespace:
                    raise method_not_allowed()
                made = await self.objects.create(kind, target.namespace, _document(request), dry_run=_dry_run(request))
                return ApiResponse(201, self._shown(request, target, made))
            case "DELETE":
                return self._delete_all(request, target)
        raise method_not_allowed()

    def _delete_all(self, request: ApiRequest, target: _Target) -> ApiResponse:
        kind = target.kind
        listed = self.lists.page(kind, target.namespace, {**request.params, "limit": "0", "continue": ""})
        options = _options(request)
        for one in listed["items"]:
            self.objects.delete(kind, namespace_of(one), name_of(one), options, dry_run=_dry_run(request))
        return ApiResponse(200, listed)

    def _watch(self, request: ApiRequest, target: _Target) -> Watch:
        kind, params = target.kind, request.params
        fields = params.get("fieldSelector", "")
        if target.name:
            fields = f"metadata.name={target.name}"
        collection = self.storage.collection(kind)
        watch = Watch(
            kind, collection, namespace=target.namespace,
            matches=matcher(kind, params.get("labelSelector", ""), fields), form=self._form(request, kind),
        )  # fmt: skip
        watch.bookmarks = params.get("allowWatchBookmarks") in _TRUE
        revision = params.get("resourceVersion", "")
        if not revision.isdecimal() and revision:
            raise bad_request(f"invalid resource version {revision!r}: it is no number")
        initial = params.get("sendInitialEvents")
        if initial in _TRUE and params.get("resourceVersionMatch") != "NotOlderThan":
            fault = forbidden(
                "resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            )
            raise invalid_object(ResourceKind("meta.k8s.io", "v1", "listoptions", "ListOptions"), "", [fault])
        if initial in _TRUE or (initial is None and revision in ("", "0")):
            watch.start_with_all()
            if initial in _TRUE:
                watch.bookmark(self.storage.revision, ends_initial_events=True)
        else:
            if revision and int(revision) < collection.forgotten:
                raise expired(f"too old resource version: {revision} ({collection.forgotten})")
            watch.start_after(int(revision or self.storage.revision))
        self._watches[watch] = None
        seconds = float(params.get("timeoutSeconds") or _WATCH_SECONDS)
        self._agenda.call_later(max(seconds, self._watch_seconds), lambda: self._end(watch))
        return watch

    def _end(self, watch: Watch) -> None:
        watch.bookmark(self.storage.revision)
        watch.close()
        self._watches.pop(watch, None)

    def _form(self, request: ApiRequest, kind: ResourceKind) -> Any:
        if _wants_table(request):
            return lambda obj: self._table(
                request, kind, [obj], {"resourceVersion": obj["metadata"]["resourceVersion"]}
            )
        return (lambda obj: shown_form(kind, obj)) if kind == kinds.EVENTS else None

    def _table(self, request: ApiRequest, kind: ResourceKind, objects: list[Json], metadata: Json) -> Json:
        include = request.params.get("includeObject", "Metadata")
        return table(kind, objects, self._agenda.clock.now(), metadata=metadata, include=include)

    # ── single objects ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _one(self, request: ApiRequest, target: _Target) -> ApiResponse:
        kind, namespace, name, part = target.kind, target.namespace, target.name, target.subresource
        dry_run = _dry_run(request)
        if part in ("eviction", "binding") and request.method != "POST":
            raise method_not_allowed()
        match request.method, part:
            case "GET" | "POST", _ if part in kinds.STREAMING:
                self.objects.get(kind, namespace, name)
                raise bad_request(
                    f"pods/{part} is not supported: this is an embedded cluster, and the containers of {namespace}/{name} do not run"
                )
            case "GET", "log":
                return ApiResponse(200, text=_log(self.objects.get(kind, namespace, name), request.params))
            case "GET", _ if request.params.get("watch") in _TRUE:
                return ApiResponse(200, watch=self._watch(request, target))
            case "GET", _:
                return ApiResponse(200, self._shown(request, target, self.objects.get(kind, namespace, name)))
            case "POST", "eviction":
                self.objects.evict(namespace, name, _document(request), dry_run=dry_run)
                return ApiResponse(201, _success(201))
            case "POST", "binding":
                self.objects.bind(namespace, name, _document(request))
                return ApiResponse(201, _success(201))
            case "PUT", _:
                after = await self.objects.replace(
                    kind,
                    namespace,
                    name,
                    _document(request),
                    subresource=part,
                    manager=_manager(request),
                    dry_run=dry_run,
                )
                return ApiResponse(200, self._shown(request, target, after))
            case "PATCH", _:
                form = request.content_type.partition(";")[0].strip()
                # Server-side apply requires a field manager; otherwise the user agent is the default.
                manager = request.params.get("fieldManager", "") if form in APPLY_FORMS else _manager(request)
                after, made = await self.objects.patch(
                    kind, namespace, name, _document(request), form, subresource=part, manager=manager,
                    force=request.params.get("force") in _TRUE, dry_run=dry_run,
                )  # fmt: skip
                return ApiResponse(201 if made else 200, self._shown(request, target, after))
            case "DELETE", "":
                obj, gone = self.objects.delete(kind, namespace, name, _options(request), dry_run=dry_run)
                if gone and kind != kinds.PODS:
                    details = {"name": name, "group": kind.group, "kind": kind.plural, "uid": obj["metadata"]["uid"]}
                    return ApiResponse(200, _success(details={key: value for key, value in details.items() if value}))
                return ApiResponse(200, shown_form(kind, obj))
        raise method_not_allowed()

    def _shown(self, request: ApiRequest, target: _Target, obj: Json) -> Json:
        if target.subresource == "scale":
            return scale_of(target.kind, obj)
        if _wants_table(request):
            return self._table(request, target.kind, [obj], {"resourceVersion": obj["metadata"]["resourceVersion"]})
        if _wants_metadata(request):
            return metadata_only(obj)
        return shown_form(target.kind, obj)


def _log(pod: Json, params: Mapping[str, str]) -> str:
    """One line in place of a log; 400 for a container that does not exist or has not started, as from a kubelet."""
    containers = [one["name"] for one in at(pod, "spec", "containers", default=[])]
    container = params.get("container") or (containers[0] if containers else "")
    if container not in containers:
        raise bad_request(f"container {container} is not valid for pod {name_of(pod)}")
    if at(pod, "status", "phase") == "Pending":
        raise bad_request(f'container "{container}" in pod "{name_of(pod)}" is waiting to start: ContainerCreating')
    started = at(pod, "status", "startTime", default="")
    return f"{started} embedded cluster: container {container} does not run and writes no log\n"


def _wants_table(request: ApiRequest) -> bool:
    return "as=Table" in request.accept


def _wants_metadata(request: ApiRequest) -> bool:
    return "as=PartialObjectMetadata;" in request.accept


def _dry_run(request: ApiRequest) -> bool:
    wanted = request.params.get("dryRun", "")
    if wanted not in ("", "All"):
        raise bad_request(f'dryRun: Unsupported value: "{wanted}": supported values: "All"')
    return wanted == "All"


def _manager(request: ApiRequest) -> str:
    return request.params.get("fieldManager") or request.user_agent.partition("/")[0]


def _document(request: ApiRequest) -> Any:
    """JSON, or YAML where a patch is applied."""
    if "yaml" in request.content_type and not request.body.lstrip().startswith(b"{"):
        return _from_yaml(request.body)
    if request.content_type.startswith(protobuf.FORM):
        return protobuf.document(request.body)
    try:
        return msgspec.json.decode(request.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from None


def _from_yaml(body: bytes) -> Any:
    yaml = importlib.import_module("yaml")  # needed by few, and part of the time in which a cluster starts
    try:
        return yaml.safe_load(body)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from None


def _options(request: ApiRequest) -> Mapping[str, Any]:
    options = _document(request) if request.body.strip() else {}
    if not isinstance(options, dict):
        raise bad_request("the delete options are no object")
    for name in ("gracePeriodSeconds", "propagationPolicy"):
        if name in request.params:
            value = request.params[name]
            options = {name: int(value) if name == "gracePeriodSeconds" else value, **options}
    return options


def _success(code: int = 200, details: Json | None = None) -> Json:
    body: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return {**body, "details": details} if details else {**body, "code": code}
