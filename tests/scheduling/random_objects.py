"""Seeded random pods and nodes from the menus, for tests that are too large for hypothesis to draw and shrink."""

from __future__ import annotations

from random import Random
from typing import Any

from plimsoll.kube.types.core import Node
from tests.scheduling import cases, menus


class RandomObjects:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def pod(self, name: str) -> dict[str, Any]:
        """The manifest of a pod with a size, labels and up to four features."""
        pick = self.random.choice
        chosen = [pick(menus.SIZES), pick(menus.POD_LABELS)]
        if pick((True, False)):
            chosen.append(pick(pick(menus.ALONE)))
        if pick((True, False)):
            chosen.append(pick(menus.TOLERATIONS))
        chosen += [pick(pick(menus.WITH_OTHERS)) for _ in range(pick((0, 1, 1, 2)))]
        identity = {"metadata": {"name": name, "namespace": pick(tuple(menus.NAMESPACES))}}
        return menus.merge(*menus.without_repeats(chosen), identity)

    def node(self, name: str) -> Node:
        pick = self.random.choice
        cordoned = self.random.random() < 0.1
        taints = [pick(menus.TAINTS)] if self.random.random() < 0.4 else []
        return cases.node(
            name,
            pick(menus.CAPACITIES),
            zone=pick((*menus.ZONES, *menus.ZONES, "")),
            labels=pick(menus.NODE_LABELS),
            taints=[*taints, *([menus.CORDON] if cordoned else [])],
            unschedulable=cordoned,
        )
