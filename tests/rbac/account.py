"""`plimsoll run` as the ServiceAccount of an installation, with the rights that `plimsoll manifests` prints and no other.

A proxy passes its requests on with a token of that account and keeps the record by which it is judged. Streaming lists are
refused, so that lists are used where an older API server would have them, and replies to writes can be lost.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from plimsoll.runtime.exit_codes import ExitCode
from tests.cli.command import plimsoll
from tests.cli.running import Running, running
from tests.eventually import eventually
from tests.faults.answers import Reply, refusal
from tests.faults.calls import Call
from tests.faults.faults import Answer, Fault, ResetAfter
from tests.faults.proxy import Proxy
from tests.faults.record import Record
from tests.faults.rules import Rules, on
from tests.faults.upstream import Direct, Upstream
from tests.rbac.judge import Grant, complaints, granted
from tools.controlplane.cluster import ControlPlane

_RIGHTS = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")


class Gate(Fault):
    """Lines of a watch pass while it is open."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()

    def lines(self, call: Call, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async def passing() -> AsyncIterator[bytes]:
            async for line in lines:
                await self.open.wait()
                yield line

        return passing()


def _without_streaming_lists(call: Call) -> Reply:
    return refusal(
        422, "Invalid", "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
    )


class Account:
    def __init__(self, direct: Direct, rules: Rules, record: Record, grants: set[Grant]) -> None:
        self.direct = direct
        self.rules = rules
        self.record = record
        self.grants = grants
        self.operator: Running

    async def asked_for(self, verbs: str, resource: str, *, times: int = 1) -> None:
        matches = on(verbs, resource)

        def enough() -> bool:
            return len([one for one in self.record if matches(one.call) and one.answered is not None]) >= times

        try:
            await eventually(enough, f"{verbs} {resource}")
        except AssertionError as error:
            error.add_note(str(self.record))
            raise

    async def repeats_an_event(self, spoil: Callable[[], Any], mend: Callable[[], Any]) -> None:
        """The same trouble comes, goes and comes again: told as one event that is counted up."""

        def counted() -> bool:
            return any(on("patch", "events")(one.call) for one in self.record)

        await self.repeats(spoil, mend, counted, "an event that is counted up")

    async def repeats(
        self, spoil: Callable[[], Any], mend: Callable[[], Any], until: Callable[[], bool], what: str
    ) -> None:
        async def is_so() -> bool:
            for change in (spoil, mend):
                await change()
                await asyncio.sleep(0.3)  # long enough to be noticed, mostly; else it is done once more
            return until()

        await eventually(is_so, what)

    def lose_the_reply(self, verb: str, resource: str) -> None:
        """Of the next one; the operator then reads what became of it."""
        self.rules.add(on(verb, resource), ResetAfter(), times=1)

    def complaints(self) -> list[str]:
        return complaints(self.grants, self.record)


@asynccontextmanager
async def installed(
    control_plane: ControlPlane,
    directory: Path,
    *arguments: str,
    home: str,
    settings: Sequence[str] = (),
    faults: Sequence[tuple[Callable[[Call], bool], Fault]] = (),
    without: Callable[[Grant], bool] = lambda _: False,
) -> AsyncIterator[Account]:
    """`arguments` are those of `plimsoll manifests`; `settings` hold for this process alone, such as a free port. `without` takes
    rights away that the manifests grant."""
    result = plimsoll("manifests", "--namespace", home, *arguments)
    assert result.exit_code == 0, result.stderr
    manifests = list(yaml.safe_load_all(result.stdout))
    rights = [_stripped(one, without) for one in manifests if one["kind"] in _RIGHTS]
    control_plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(rights))
    path = f"/api/v1/namespaces/{home}/serviceaccounts/plimsoll/token"
    token = control_plane.request("POST", path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    (file,) = (one["data"]["plimsoll.yaml"] for one in manifests if one["kind"] == "ConfigMap")
    (directory / "plimsoll.yaml").write_text(file)
    upstream, rules = Upstream.from_kubeconfig(control_plane.kubeconfig), Rules()
    rules.add(lambda call: "sendInitialEvents" in call.params, Answer(_without_streaming_lists))
    for matches, fault in faults:
        rules.add(matches, fault)
    try:
        async with Direct(upstream) as direct, Proxy(upstream, Record(), [rules], directory) as proxy:
            link = await proxy.link("account", token=token)
            account = Account(direct, rules, proxy.record, granted(rights))
            quick = [word for setting in settings for word in ("--set", setting)]
            more = ("--kubeconfig", str(link.kubeconfig), "--config", str(directory / "plimsoll.yaml"), *quick)
            async with running(directory, *more) as account.operator:
                yield account
                account.operator.process.send_signal(signal.SIGTERM)
                assert await account.operator.exit_code() == ExitCode.STOPPED
    finally:
        outside = [one for one in rights if one["metadata"].get("namespace") != home]
        control_plane.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=yaml.safe_dump_all(outside))


def _stripped(manifest: dict[str, Any], without: Callable[[Grant], bool]) -> dict[str, Any]:
    if "rules" not in manifest:
        return manifest
    kept = [one for one in granted([manifest]) if not without(one)]
    rules = [
        {"apiGroups": [one.group], "resources": [one.resource], "verbs": [one.verb]}
        | ({"resourceNames": [one.name]} if one.name else {})
        for one in sorted(kept)
    ]
    # What people are granted who look at the dashboard is no right of ours to take away.
    return {**manifest, "rules": rules + [one for one in manifest["rules"] if "nonResourceURLs" in one]}
