"""What an installation was granted against what it asked for: nothing may be refused, and nothing granted in vain."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from tests.faults.record import Exchange


class Request(Protocol):
    """Whoever wrote it down: the proxy of a test, or the API server."""

    @property
    def group(self) -> str: ...
    @property
    def resource(self) -> str: ...
    @property
    def subresource(self) -> str: ...
    @property
    def verb(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...


@dataclass(frozen=True, order=True)
class Grant:
    """One verb on one kind, in one namespace or (empty) everywhere, of one object or (empty) all of them."""

    group: str
    resource: str
    verb: str
    namespace: str = ""
    name: str = ""

    def covers(self, call: Request) -> bool:
        asked = f"{call.resource}/{call.subresource}" if call.subresource else call.resource
        return (
            (self.group, self.resource, self.verb) == (call.group, asked, call.verb)
            and self.namespace in ("", call.namespace)
            and self.name in ("", call.name)
        )

    def __str__(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        named = f" named {self.name}" if self.name else ""
        return f"{self.verb} {kind}{named}" + (f" in {self.namespace}" if self.namespace else "")


def granted(manifests: Iterable[dict[str, Any]]) -> set[Grant]:
    """Every single right of the roles among the manifests."""
    return {
        Grant(group, resource, verb, role["metadata"].get("namespace", ""), name)
        for role in manifests
        if role["kind"] in ("Role", "ClusterRole")
        for rule in role["rules"]
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def complaints(rights: Iterable[Grant], exchanges: Iterable[Exchange]) -> list[str]:
    """What was refused, what was asked without a right (and the server let pass all the same), and what nobody used."""
    rights, found, used = set(rights), dict[str, None](), set[Grant]()
    for exchange in exchanges:
        call = exchange.call
        if exchange.answered == 403:
            found[f"denied: {call.sort} {call.namespace}/{call.name}"] = None
        if not call.resource or exchange.answered is None:
            continue  # /version is everybody's to read; what never arrived tells nothing
        covering = {grant for grant in rights if grant.covers(call)}
        if not covering and exchange.answered != 403:
            found[f"undeclared: {call.sort} {call.namespace}/{call.name}"] = None
        used |= covering
    return [*found, *(f"unused: {grant}" for grant in sorted(rights - used))]
