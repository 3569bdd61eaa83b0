"""Run a session by hand: the test supplies every reply."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from plimsoll.controllers.allocation.inventory import Inventory
from plimsoll.controllers.allocation.lease import NONCE
from plimsoll.controllers.allocation.protocol import step
from plimsoll.controllers.allocation.session import Starting, State, Task
from plimsoll.controllers.allocation.types import WekaContainer
from plimsoll.kube.codec import builtins, convert
from plimsoll.kube.types.coordination import Lease
from plimsoll.runtime.decision import Create, Patch
from plimsoll.runtime.transaction import (
    ConcurrentWrites,
    End,
    Found,
    ListAll,
    Listed,
    Moment,
    ReadFailed,
    TransactionReply,
    TransactionRequest,
    TransactionStarted,
    WriteResult,
    WritesDone,
)
from tests import build
from tests.model.server import merged

NODE = "n1"


class Talk:
    """A session, step by step, at times that the test sets."""

    def __init__(self, **fields: Any) -> None:
        known: dict[str, Any] = {"inventory": Inventory(("S1", "S2", "S3")), "process": "me", "identity": "default/c"}
        self.task = Task(
            node=NODE, lease_namespace="system", lease_name=f"weka-allocator-{NODE}", **{**known, **fields}
        )
        self.state: State = Starting(self.task)
        self.at = 1000.0
        self.request: TransactionRequest = End()
        self.say(TransactionStarted(self.moment, "1"))

    @property
    def moment(self) -> Moment:
        return Moment(build.START + timedelta(seconds=self.at), self.at)

    def say(self, reply: TransactionReply) -> TransactionRequest:
        self.state, self.request = step(self.state, reply)
        return self.request

    def found(self, item: Lease | None) -> TransactionRequest:
        return self.say(Found(self.moment, item))

    def unread(self) -> TransactionRequest:
        return self.say(ReadFailed(self.moment, "503"))

    def listed(self, *containers: WekaContainer) -> TransactionRequest:
        assert isinstance(self.request, ListAll)
        return self.say(Listed(self.moment, containers))

    def answered(self, *words: str, item: Any = None) -> TransactionRequest:
        """The same answer to each of the pending writes, or one for each."""
        writes = self.writes
        wanted = words if len(words) == len(writes) else words * len(writes)
        answers = tuple(WriteResult(status, item) for status in wanted)  # type: ignore[arg-type]
        return self.say(WritesDone(self.moment, answers))

    def applied(self) -> TransactionRequest:
        """The pending writes succeed, as an API server would apply them."""
        return self.say(
            WritesDone(self.moment, tuple(WriteResult("done", after(write, self.known)) for write in self.writes))
        )

    @property
    def writes(self) -> tuple[Patch | Create, ...]:
        assert isinstance(self.request, ConcurrentWrites), self.request
        return self.request.writes  # type: ignore[return-value]

    @property
    def end(self) -> End:
        assert isinstance(self.request, End), self.request
        return self.request

    known: dict[str, WekaContainer]

    def serve(self, *containers: WekaContainer) -> None:
        """Take the lease, list, propose and verify: what is pending then are the commits."""
        self.known = {one.uid: one for one in containers}
        self.found(None)
        self.applied()
        self.listed(*containers)


def after(write: Patch | Create, known: dict[str, WekaContainer]) -> Any:
    if isinstance(write, Create):
        meta = {**write.body["metadata"], "name": write.name, "uid": "lease-uid", "resourceVersion": "500"}
        return convert({**write.body, "metadata": meta}, Lease)
    if write.target.resource.kind == "Lease":
        body = {"metadata": {"uid": write.target.uid, "name": write.target.name, "resourceVersion": "501"}}
        return convert(merged(body, write.body), Lease)
    there = known[write.target.uid]
    assert isinstance(write.body, Mapping)
    version = {"resourceVersion": str(int(there.metadata.resource_version) + 10_000)}
    body = merged(builtins(there), {**write.body, "metadata": version})
    known[write.target.uid] = changed = convert(body, WekaContainer)
    return changed


def lease(*, holder: str = "other/x", nonce: str = "", version: str = "77", duration: int = 15) -> Lease:
    meta: dict[str, Any] = {"name": f"weka-allocator-{NODE}", "uid": "lease-uid", "resourceVersion": version}
    if nonce:
        meta["annotations"] = {NONCE: nonce}
    return convert({"metadata": meta, "spec": {"holderIdentity": holder, "leaseDurationSeconds": duration}}, Lease)


def own_lease(version: str = "500") -> Lease:
    return lease(holder="default/c", nonce="me/1", version=version)
