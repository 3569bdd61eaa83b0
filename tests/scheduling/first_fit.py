"""The yardstick: one pod after the other, largest first, onto the first node that will have it.

A node that is opened stays undecided about its size: it keeps every offering of its zone and kind that still holds its
pods, and the cheapest of those is bought at the end. That is what a plain autoscaler does, pod by pod. A domain in which
a node could still be opened counts as an empty one, so that nodes that are opened later break no spread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from plimsoll.kube.types.core import NodeStatus, Pod
from plimsoll.scheduling.model import NodeOffering, Template
from tests.scheduling.cases import Case
from tests.scheduling.checker import Placement, Situation
from tests.scheduling.requests import requests_of

_SIZE_LABEL = "node.kubernetes.io/instance-type"
_ROOM = ("pods", "resources")  # what a larger offering could still mend


@dataclass
class OpenNode:
    name: str
    template: Template
    candidates: list[NodeOffering]  # cheapest first


@dataclass
class FirstFit:
    placements: list[Placement] = field(default_factory=list)
    new_nodes: list[OpenNode] = field(default_factory=list)
    unplaced: list[Pod] = field(default_factory=list)
    before: Situation = field(default_factory=lambda: Situation(()))

    @property
    def price(self) -> float:
        return sum(node.candidates[0].price for node in self.new_nodes)


def first_fit(case: Case) -> FirstFit:
    return _Packer(case).run()


class _Packer:
    def __init__(self, case: Case) -> None:
        self.case = case
        self.now = case.situation()
        self.answer = FirstFit()
        self.opened: dict[str, OpenNode] = {}
        self.groups = [(template, group) for template in self._by_priority() for group in _alike(template.offerings)]
        for number, (template, group) in enumerate(self.groups):
            if template.max_nodes != 0:
                empty = case.make_node(self.now, f"could-be-{number}", template, group[0])
                self.now.add_node(msgspec.structs.replace(empty, status=NodeStatus()))

    def _by_priority(self) -> list[Template]:
        return sorted(self.case.templates, key=lambda template: -template.priority)

    def run(self) -> FirstFit:
        for pod in sorted(self.case.pending, key=_size, reverse=True):
            if pod.spec.scheduling_gates or not (self._on_a_node(pod) or self._on_a_new_node(pod)):
                self.answer.unplaced.append(pod)
        self.answer.before = self.case.situation()
        for node in self.answer.new_nodes:
            self.case.make_node(self.answer.before, node.name, node.template, node.candidates[0])
        return self.answer

    def _on_a_node(self, pod: Pod) -> bool:
        asked = self.now.ask(pod)
        for name, node in self.now.nodes.items():
            refusals = asked.refusals(node)
            opened = self.opened.get(name)
            if opened is None and not refusals:
                return self._place(pod, name)
            if opened is not None and all(rule in _ROOM for rule in refusals):
                left = self._still_fit(opened.candidates, name, pod)
                if left:
                    opened.candidates = left
                    return self._place(pod, name)
        return False

    def _on_a_new_node(self, pod: Pod) -> bool:
        if pod.spec.priority < -10:
            return False
        name = f"new-{len(self.opened)}"
        best: OpenNode | None = None
        for template, group in self.groups:
            if template.max_nodes is not None and self._made(template) >= template.max_nodes:
                continue
            if best is not None and best.template.priority > template.priority:
                continue
            offered = [offering for offering in group if not self._sold_out(template, offering)]
            if not offered:
                continue
            node = self.case.make_node(self.now, name, template, offered[0])
            if all(rule in _ROOM for rule in self.now.ask(pod).refusals(node)):
                left = self._still_fit(offered, name, pod)
                if left and (best is None or left[0].price < best.candidates[0].price):
                    best = OpenNode(name, template, left)
            self.now.remove_node(name)
        if best is None:
            return False
        self.case.make_node(self.now, name, best.template, best.candidates[0])
        self.opened[name] = best
        self.answer.new_nodes.append(best)
        return self._place(pod, name)

    def _made(self, template: Template) -> int:
        return sum(1 for node in self.answer.new_nodes if node.template is template)

    def _sold_out(self, template: Template, offering: NodeOffering) -> bool:
        if offering.available is None:
            return False
        # Any node that may still become this offering counts against what is left of it.
        claimed = sum(1 for node in self.answer.new_nodes if node.template is template and offering in node.candidates)
        return claimed >= offering.available

    def _still_fit(self, offerings: list[NodeOffering], name: str, pod: Pod) -> list[NodeOffering]:
        used = Counter(self.now.used_on[name])
        used.update(requests_of(pod))
        used["pods"] = len(self.now.pods_on[name]) + 1
        return [offering for offering in offerings if _holds(offering.allocatable, used)]

    def _place(self, pod: Pod, name: str) -> bool:
        self.now.place(pod, name)
        self.answer.placements.append(Placement(pod, name))
        return True


def _holds(allocatable: Mapping[str, int], used: Counter[str]) -> bool:
    for name, amount in used.items():
        there = allocatable.get(name, 0)
        if amount > (there if name == "cpu" else -(-there // 1000)):
            return False
    return True


def _alike(offerings: tuple[NodeOffering, ...]) -> list[list[NodeOffering]]:
    """Offerings that differ in size alone, cheapest first: a node may become any of one such group."""
    groups: dict[tuple[tuple[str, str], ...], list[NodeOffering]] = {}
    for offering in offerings:
        kind = tuple(sorted((key, value) for key, value in offering.labels.items() if key != _SIZE_LABEL))
        groups.setdefault(kind, []).append(offering)
    return [sorted(group, key=lambda offering: offering.price) for group in groups.values()]


def _size(pod: Pod) -> tuple[int, int]:
    requests = requests_of(pod)
    return requests.get("cpu", 0), requests.get("memory", 0)
