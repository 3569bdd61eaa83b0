"""Which request meets which fault: by what it asks, and by how many of its kind came before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tests.faults.calls import Call
from tests.faults.faults import Fault

Matches = Callable[[Call], bool]


class FaultSource(Protocol):
    """What the proxy asks before it handles a call: rules of a test, or a plan drawn from a seed."""

    def faults(self, call: Call) -> list[Fault]: ...


def on(verbs: str, resource: str = "", *, name: str = "", link: str = "") -> Matches:
    """Calls by verb or verbs ("get list"), resource with its subresource ("pods/eviction"), name and link."""
    wanted = verbs.split()
    kind, _, subresource = resource.partition("/")

    def matches(call: Call) -> bool:
        return (
            call.verb in wanted
            and (not resource or (call.resource, call.subresource) == (kind, subresource))
            and (not name or call.name == name)
            and (not link or call.link == link)
        )

    return matches


def works(call: Call) -> bool:
    """Writes that carry out decisions."""
    return call.works


def next_page(resource: str) -> Matches:
    """Lists that ask for a page after the first."""
    return lambda call: call.verb == "list" and call.resource == resource and "continue" in call.params


@dataclass
class Rule:
    """One fault, for the calls that match: after the first `skip` of them, `times` times."""

    matches: Matches
    fault: Fault
    skip: int = 0
    times: int | None = None
    seen: int = 0
    struck: int = 0

    def strikes(self, call: Call) -> bool:
        if not self.matches(call):
            return False
        self.seen += 1
        if self.seen <= self.skip or (self.times is not None and self.struck >= self.times):
            return False
        self.struck += 1
        return True


class Rules:
    """The rules of a test, in force from when they are added until they are dropped."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []

    def add(self, matches: Matches, fault: Fault, *, skip: int = 0, times: int | None = None) -> Rule:
        rule = Rule(matches, fault, skip, times)
        self._rules.append(rule)
        return rule

    def drop(self, *rules: Rule) -> None:
        """Take rules out of force; without an argument, all of them."""
        self._rules = [rule for rule in self._rules if rules and rule not in rules]

    def faults(self, call: Call) -> list[Fault]:
        return [rule.fault for rule in self._rules if rule.strikes(call)]
