"""Whatever happens to objects, streams and lists, and in whatever order: once it is quiet, the store equals the server.

On the way there the view never goes backwards: no state older than one already told, nothing told of the dead, and no
object taken for gone that is there.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from plimsoll.kube.cache.store import Store
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import NODES, PODS, Resource
from tests.kube.reflected_store import ReflectedStore, contents, owned_by, served
from tests.kube.watch_server import Answer, WatchServer

T = TypeVar("T")

KINDS = (PODS, NODES)
a_kind = st.sampled_from(KINDS)
a_name = st.sampled_from("abcdefgh")
an_owner = st.sampled_from(("", "rs-1", "rs-2"))
a_node = st.sampled_from(("", "n1", "n2"))
a_verb = st.sampled_from(("list", "page", "watch"))
a_refusal = st.sampled_from((403, 404, 410, 429, 500, 503))
# Far beyond what any sequence takes; a store that has not caught up by then never will.
PATIENCE_SECONDS = 20.0


class StoreChecker:
    """Listens to a store, keeps its own copy, and records violations."""

    def __init__(self, server: WatchServer, resource: Resource[Any], store: Store[Any]) -> None:
        self._server = server
        self._resource = resource
        self._store = store
        self.copy: dict[tuple[str, str], KubeObject] = {}
        self._dead: set[str] = set()
        self._reached = 0
        self.wrongs: list[str] = []
        store.listen(self._hear)

    def _hear(self, _: Resource[Any], before: KubeObject | None, after: KubeObject | None) -> None:
        name = ((before or after).namespace, (before or after).name)  # type: ignore[union-attr]
        if self.copy.get(name) is not before:
            self.wrongs.append(f"{name}: told of a change from a state that was not told before")
        if after is None:
            assert before is not None
            if before.uid in {obj["metadata"]["uid"] for obj in self._server[self._resource].objects.values()}:
                self.wrongs.append(f"{name}: {before.uid} was taken for gone")
            self._dead.add(before.uid)
            del self.copy[name]
            return
        if after.uid in self._dead:
            self.wrongs.append(f"{name}: {after.uid} came back from the dead")
        if before is not None and _version(after) <= _version(before):
            self.wrongs.append(f"{name}: went from {_version(before)} to {_version(after)}")
        self.copy[name] = after

    def look(self) -> None:
        reached = int(self._store.resource_version or 0)
        if reached < self._reached:
            self.wrongs.append(f"the store went from {self._reached} to {reached}")
        self._reached = reached


def _version(obj: KubeObject) -> int:
    return int(obj.metadata.resource_version)


class Informers(RuleBasedStateMachine):
    @initialize(
        listing=st.sampled_from(({}, {"page_size": 2}, {"streaming": True})),
        server_streams=st.booleans(),
        pause_seconds=st.sampled_from((0.0, 0.002)),
    )
    def start(self, listing: dict[str, Any], server_streams: bool, pause_seconds: float) -> None:
        """pause_seconds: what everyone has between two steps to react; without it, steps fall upon one another."""
        self.pause_seconds = pause_seconds
        self.loop = asyncio.new_event_loop()
        self.doors = contextlib.AsyncExitStack()
        self.server = WatchServer(*KINDS, streaming_lists=server_streams)
        self.run(self.doors.enter_async_context(self.server))
        self.reflected: dict[Resource[Any], ReflectedStore[Any]] = {}
        self.checkers: dict[Resource[Any], StoreChecker] = {}
        for kind in KINDS:
            self.reflected[kind] = self.run(self.follow(kind, listing))
            self.checkers[kind] = StoreChecker(self.server, kind, self.reflected[kind].store)

    async def follow(self, kind: Resource[Any], listing: dict[str, Any]) -> ReflectedStore[Any]:
        reflected = ReflectedStore(self.server, kind, idle_seconds=1e6, **listing)
        return await self.doors.enter_async_context(reflected)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(coroutine)

    # ── what happens to objects ──────────────────────────────────────────────────────────────────────────────────────

    @rule(kind=a_kind, name=a_name, owner=an_owner, node=a_node)
    def write(self, kind: Resource[Any], name: str, owner: str, node: str) -> None:
        """Create an object, or change one."""
        namespace = "default" if kind.namespaced else ""
        metadata: dict[str, Any] = owned_by(owner) if owner else {"ownerReferences": []}
        parts: dict[str, Any] = {"metadata": metadata, "spec": {"nodeName": node} if kind is PODS else {}}
        known = (namespace, name) in self.server[kind].objects
        (self.server.update if known else self.server.create)(kind, namespace, name, **parts)

    @rule(kind=a_kind, name=a_name, again=st.booleans())
    def delete(self, kind: Resource[Any], name: str, again: bool) -> None:
        namespace = "default" if kind.namespaced else ""
        if (namespace, name) in self.server[kind].objects:
            self.server.delete(kind, namespace, name)
            if again:
                self.server.create(kind, namespace, name)

    # ── what happens on the way ──────────────────────────────────────────────────────────────────────────────────────

    @rule(seconds=st.sampled_from((0.0, 0.3, 2.0, 40.0)))
    def let_time_pass(self, seconds: float) -> None:
        for reflected in self.reflected.values():
            reflected.clock.push(seconds)
        self.run(asyncio.sleep(0.003))

    @rule(kind=a_kind)
    def end_watch(self, kind: Resource[Any]) -> None:
        self.server.end_watches(kind)

    @rule(
        kind=a_kind, words=st.sampled_from((b"", b'{"type":"ADD', b'{"type":"ADDED","object":{"metadata":{"name":"a'))
    )
    def cut_watch(self, kind: Resource[Any], words: bytes) -> None:
        self.server.cut_watches(kind, words)

    @rule(kind=a_kind, status=st.sampled_from((410, 500)))
    def fail_watch(self, kind: Resource[Any], status: int) -> None:
        self.server.fail_watches(kind, status)

    @rule()
    def compact(self) -> None:
        self.server.compact()

    @rule()
    def expire_tokens(self) -> None:
        self.server.expire_tokens()

    @rule(kind=a_kind)
    def bookmark(self, kind: Resource[Any]) -> None:
        self.server.bookmark(kind)

    @rule(kind=a_kind, last=st.integers(1, 4))
    def replay(self, kind: Resource[Any], last: int) -> None:
        self.server.replay(kind, last)

    @rule(kind=a_kind, verb=a_verb, status=a_refusal)
    def refuse(self, kind: Resource[Any], verb: str, status: int) -> None:
        self.server.answer(kind, verb, Answer(status))

    @rule(kind=a_kind, held=st.booleans())
    def hold(self, kind: Resource[Any], held: bool) -> None:
        """One kind falls behind the other."""
        self.server.hold(kind, held)

    @rule(kind=a_kind, lagging=st.booleans())
    def lag(self, kind: Resource[Any], lagging: bool) -> None:
        self.server.lag(kind, lagging)

    # ── what must hold ───────────────────────────────────────────────────────────────────────────────────────────────

    @precondition(lambda self: hasattr(self, "checkers"))
    @invariant()
    def nothing_went_backwards(self) -> None:
        if self.pause_seconds:
            self.run(asyncio.sleep(self.pause_seconds))
        for checker in self.checkers.values():
            checker.look()
            assert not checker.wrongs

    @rule()
    def quiet(self) -> None:
        self.run(self.become_quiet())
        for kind in KINDS:
            store = self.reflected[kind].store
            objects = served(self.server, kind)
            assert contents(store) == objects == self.checkers[kind].copy
            for index in kind.indexes:
                found = {value: {obj.name for obj in store.by(index, value)} for value in store.values(index)}
                assert found == recomputed(index.values, objects)

    async def become_quiet(self) -> None:
        self.server.answer_truly()
        for kind in KINDS:
            self.server.lag(kind, lagging=False)
            self.server.hold(kind, held=False)
        deadline = self.loop.time() + PATIENCE_SECONDS
        while not all(f.store.synced and f.equals_server() for f in self.reflected.values()):
            assert self.loop.time() < deadline, [(f.reflector.problem, f.names()) for f in self.reflected.values()]
            for reflected in self.reflected.values():
                assert not reflected.ended
                reflected.clock.push(5.0)
            await asyncio.sleep(0.002)

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        try:
            if hasattr(self, "checkers"):
                self.quiet()
                self.nothing_went_backwards()
        finally:
            self.run(self.doors.aclose())
            self.run(self.loop.shutdown_asyncgens())
            self.loop.close()


def recomputed(values: Callable[[Any], Iterable[str]], objects: Mapping[Any, KubeObject]) -> dict[str, set[str]]:
    index: dict[str, set[str]] = {}
    for obj in objects.values():
        for value in values(obj):
            index.setdefault(value, set()).add(obj.name)
    return index


def test_any_short_history():
    run_state_machine_as_test(Informers, settings=settings(max_examples=40, stateful_step_count=30))


@pytest.mark.soak
def test_any_long_history():
    run_state_machine_as_test(Informers, settings=settings(max_examples=2000, stateful_step_count=60))
