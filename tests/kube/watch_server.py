"""An API server's list and watch in memory, over real HTTP, with the faults of the real one at a test's command.

It keeps what matters to a reflector: one counter of resourceVersions over all kinds, a history that can be compacted,
consistent pages whose tokens expire, bookmarks, streaming lists, and watches that end, break in the middle of a line or
fall silent. It is a double of the API server only; nothing of this project stands behind it.

Its methods are plain functions: they take effect as the event loop goes on.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Self

from aiohttp import web

from plimsoll.kube.types.resources import Resource

Json = dict[str, Any]
Name = tuple[str, str]


@dataclass(frozen=True)
class Change:
    """One entry of the history."""

    version: int
    type: str
    object: Json

    @property
    def namespace(self) -> str:
        return str(self.object["metadata"].get("namespace", ""))


@dataclass(frozen=True)
class Answer:
    """What is said to a request instead of what it asked for."""

    status: int
    reason: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""  # empty: a Status
    cut: bool = False  # the connection breaks before the end


@dataclass
class Stream:
    """One open watch."""

    position: int  # the version up to which everything was sent
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    silent: bool = False
    bookmarks: int = 0  # asked for by a test, not sent yet
    fate: str = ""  # "end", "cut" or "error"
    last_words: bytes = b""  # sent before its fate

    def meet(self, fate: str, last_words: bytes = b"") -> None:
        self.fate, self.last_words = fate, last_words
        self.wake.set()


@dataclass
class Kind:
    """The objects of one kind, what happened to them, and who watches."""

    resource: Resource[Any]
    objects: dict[Name, Json] = field(default_factory=dict)
    history: list[Change] = field(default_factory=list)
    forgotten: int = 0  # the history up to this version is compacted
    held: bool = False  # no stream of this kind gets anything: other kinds overtake it
    lagging: tuple[int, dict[Name, Json]] | None = None  # what lists show instead of the present
    streams: list[Stream] = field(default_factory=list)
    requests: list[dict[str, str]] = field(default_factory=list)  # parameters

    def lists(self) -> list[dict[str, str]]:
        return [params for params in self.requests if "watch" not in params]

    def watches(self) -> list[dict[str, str]]:
        return [params for params in self.requests if "watch" in params]

    def wake(self) -> None:
        for stream in self.streams:
            stream.wake.set()


class WatchServer:
    def __init__(self, *resources: Resource[Any], streaming_lists: bool = True) -> None:
        self._kinds = {resource.plural: Kind(resource) for resource in resources}
        self._version = 1000
        self._uids = count(1)
        self._tokens: dict[str, tuple[int, list[Json]]] = {}  # continue token → version and the rest of the list
        self._token_numbers = count(1)
        self._streaming_lists = streaming_lists
        self._answers: dict[tuple[str, str], deque[Answer]] = {}
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.05)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = "http://{}:{}".format(*self._runner.addresses[0][:2])

    async def stop(self) -> None:
        for kind in self._kinds.values():
            for stream in kind.streams:
                stream.meet("cut")
        if self._runner is not None:
            await self._runner.cleanup()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def __getitem__(self, resource: Resource[Any]) -> Kind:
        return self._kinds[resource.plural]

    # ── what happens in the cluster ──────────────────────────────────────────────────────────────────────────────────

    @property
    def version(self) -> str:
        return str(self._version)

    def create(self, resource: Resource[Any], namespace: str, name: str, **parts: Any) -> Json:
        metadata = {**parts.pop("metadata", {}), "name": name, "uid": f"uid-{next(self._uids)}"}
        if namespace:
            metadata["namespace"] = namespace
        obj = {"metadata": metadata, **parts}
        return self._record(resource, "ADDED", obj)

    def update(self, resource: Resource[Any], namespace: str, name: str, **parts: Any) -> Json:
        obj = copy.deepcopy(self[resource].objects[namespace, name])
        obj["metadata"].update(parts.pop("metadata", {}))
        return self._record(resource, "MODIFIED", {**obj, **parts})

    def delete(self, resource: Resource[Any], namespace: str, name: str) -> None:
        self._record(resource, "DELETED", copy.deepcopy(self[resource].objects[namespace, name]))

    def _record(self, resource: Resource[Any], kind_of_change: str, obj: Json) -> Json:
        kind = self[resource]
        self._version += 1
        metadata = obj["metadata"]
        metadata["resourceVersion"] = str(self._version)
        name = (metadata.get("namespace", ""), metadata["name"])
        if kind_of_change == "DELETED":
            del kind.objects[name]
        else:
            kind.objects[name] = obj
        kind.history.append(Change(self._version, kind_of_change, obj))
        kind.wake()
        return obj

    # ── what goes wrong with it ──────────────────────────────────────────────────────────────────────────────────────

    def compact(self) -> None:
        """Forget the history, as etcd does every five minutes: watches that start before now, and pages, meet a 410."""
        self._version += 1
        self._tokens.clear()
        for kind in self._kinds.values():
            newest = kind.history[-1].version if kind.history else kind.forgotten
            kind.history.clear()
            kind.forgotten = self._version
            for stream in kind.streams:
                if stream.position >= newest:  # it lacks nothing, and goes on
                    stream.position = self._version
            kind.wake()

    def expire_tokens(self) -> None:
        self._tokens.clear()

    def end_watches(self, resource: Resource[Any]) -> None:
        for stream in self[resource].streams:
            stream.meet("end")

    def cut_watches(self, resource: Resource[Any], last_words: bytes = b"") -> None:
        """Tear the connections down, after some bytes that need not be a whole line."""
        for stream in self[resource].streams:
            stream.meet("cut", last_words)

    def fail_watches(self, resource: Resource[Any], status: int, reason: str = "") -> None:
        """Send an ERROR event and end the stream."""
        for stream in self[resource].streams:
            stream.meet("end", _line("ERROR", _status(status, reason)))

    def silence_watches(self, resource: Resource[Any]) -> None:
        """Leave the connections open and say nothing on them any more."""
        for stream in self[resource].streams:
            stream.silent = True

    def say(self, resource: Resource[Any], *lines: bytes) -> None:
        """Put lines of a test's own on the open streams, and go on."""
        for stream in self[resource].streams:
            stream.meet("", b"".join(line + b"\n" for line in lines))

    def replay(self, resource: Resource[Any], last: int) -> None:
        """Send the last events once more, as no server should; to each stream those that it has sent, and no later ones first."""
        kind = self[resource]
        for stream in kind.streams:
            if not stream.fate:
                sent = [change for change in kind.history if change.version <= stream.position]
                stream.meet("", b"".join(_line(change.type, change.object) for change in sent[-last:]))

    def bookmark(self, resource: Resource[Any]) -> None:
        for stream in self[resource].streams:
            stream.bookmarks += 1
            stream.wake.set()

    def hold(self, resource: Resource[Any], held: bool = True) -> None:
        self[resource].held = held
        self[resource].wake()

    def lag(self, resource: Resource[Any], lagging: bool = True) -> None:
        """Let lists show this moment from now on, as a replica would that has lost touch."""
        kind = self[resource]
        kind.lagging = (self._version, dict(kind.objects)) if lagging else None

    def answer(self, resource: Resource[Any], verb: str, *answers: Answer) -> None:
        """Say this to the next requests to "list" (the first page), "page" (the following ones) or "watch"."""
        self._answers.setdefault((resource.plural, verb), deque()).extend(answers)

    def answer_truly(self) -> None:
        """Say nothing more of what `answer` was given."""
        self._answers.clear()

    # ── serving ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        *_, plural = request.path.split("/")
        if plural not in self._kinds:
            return _reply(Answer(404, "NotFound"))
        kind = self._kinds[plural]
        namespace = request.path.split("/namespaces/")[1].split("/")[0] if "/namespaces/" in request.path else ""
        params = dict(request.query)
        kind.requests.append(params)
        verb = "watch" if "watch" in params else "page" if "continue" in params else "list"
        waiting = self._answers.get((plural, verb))
        if waiting:
            answer = waiting.popleft()
            return await _begin_and_break(request, answer) if answer.cut else _reply(answer)
        if verb != "watch":
            return self._list(kind, namespace, params)
        if "sendInitialEvents" in params and not self._streaming_lists:
            return _reply(Answer(422, "Invalid"))
        return await self._watch(request, kind, namespace, params)

    def _list(self, kind: Kind, namespace: str, params: Mapping[str, str]) -> web.Response:
        if token := params.get("continue"):
            if token not in self._tokens:
                return _reply(Answer(410, "Expired"))
            version, items = self._tokens[token]
        else:
            version, objects = kind.lagging or (self._version, kind.objects)
            items = _sorted(objects, namespace)
        limit = int(params.get("limit", "0")) or len(items)
        metadata = {"resourceVersion": str(version)}
        if len(items) > limit:
            metadata["continue"] = f"token-{next(self._token_numbers)}"
            self._tokens[metadata["continue"]] = (version, items[limit:])
        body = {"kind": f"{kind.resource.kind}List", "metadata": metadata, "items": items[:limit]}
        return web.Response(body=_compact(body), content_type="application/json")

    async def _watch(
        self, request: web.Request, kind: Kind, namespace: str, params: Mapping[str, str]
    ) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_type = "application/json"
        await response.prepare(request)
        as_list = "sendInitialEvents" in params
        stream = Stream(self._version if as_list else int(params["resourceVersion"]))
        kind.streams.append(stream)
        try:
            if as_list:
                listed = stream.position
                for obj in _sorted(kind.objects, namespace):
                    await response.write(_line("ADDED", obj))
                await response.write(_bookmark(kind, listed, ends_initial_events=True))
            await self._stream(request, response, kind, stream, namespace)
        except ConnectionResetError:
            pass  # the client has left
        finally:
            kind.streams.remove(stream)
        return response

    async def _stream(
        self,
        request: web.Request,
        response: web.StreamResponse,
        kind: Kind,
        stream: Stream,
        namespace: str,
    ) -> None:
        while True:
            stream.wake.clear()
            if stream.last_words and not stream.silent:
                words, stream.last_words = stream.last_words, b""
                await response.write(words)
            if stream.fate == "cut":
                if request.transport is not None:
                    request.transport.abort()
                return
            if stream.fate == "end":
                return
            if not stream.silent and not kind.held:
                if stream.position < kind.forgotten:
                    await response.write(_line("ERROR", _status(410, "Expired")))
                    return
                for change in [c for c in kind.history if c.version > stream.position]:
                    stream.position = change.version
                    if namespace in ("", change.namespace):
                        await response.write(_line(change.type, change.object))
                while stream.bookmarks:
                    stream.bookmarks -= 1
                    stream.position = self._version
                    await response.write(_bookmark(kind, stream.position))
            await stream.wake.wait()


def _sorted(objects: Mapping[Name, Json], namespace: str) -> list[Json]:
    return [obj for name, obj in sorted(objects.items()) if namespace in ("", name[0])]


def _line(kind_of_event: str, obj: Json) -> bytes:
    return _compact({"type": kind_of_event, "object": obj}) + b"\n"


def _compact(value: Json) -> bytes:
    """As Go writes it: no spaces."""
    return json.dumps(value, separators=(",", ":")).encode()


def _bookmark(kind: Kind, version: int, *, ends_initial_events: bool = False) -> bytes:
    metadata: Json = {"resourceVersion": str(version), "creationTimestamp": None}
    if ends_initial_events:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    # As the real one does: an object of the kind, empty but for what Go cannot leave out.
    spec = {"containers": None} if kind.resource.kind == "Pod" else {}
    return _line("BOOKMARK", {"kind": kind.resource.kind, "metadata": metadata, "spec": spec, "status": {}})


def _status(code: int, reason: str) -> Json:
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": f"told to say {code}"}


def _reply(answer: Answer) -> web.Response:
    body = answer.body or json.dumps(_status(answer.status, answer.reason)).encode()
    return web.Response(status=answer.status, body=body, headers=answer.headers, content_type="application/json")


async def _begin_and_break(request: web.Request, answer: Answer) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status)
    await response.prepare(request)
    await response.write(answer.body)
    if request.transport is not None:
        request.transport.abort()
    return response
