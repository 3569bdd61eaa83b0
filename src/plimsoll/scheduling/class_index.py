"""Finds the classes that a selector could match, and the terms that could match a class, without scanning all classes.

A cluster has thousands of classes, and most requests concern one pod. The index is kept between requests; classes met
since then are added on the next lookup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from plimsoll.scheduling.pod_equivalence import AffinityTerm, PodClass
    from plimsoll.scheduling.rules import Expressions

Label: TypeAlias = tuple[str, str]


class ClassIndex:
    def __init__(self, classes: list[PodClass]) -> None:
        self._classes = classes
        self._entered = 0
        self._mentioned: set[str] = set()
        self._with_label: dict[Label, list[int]] = {}
        self._holders: dict[AffinityTerm, list[int]] = {}  # by anti-affinity term: the classes that have it
        self._by_required_label: dict[
            Label | None, dict[AffinityTerm, None]
        ] = {}  # those terms, by the labels of which they require one

    def labels_mentioned(self) -> set[str]:
        """Return the label keys that any pod selector of any class uses."""
        self._catch_up()
        return self._mentioned

    def with_label(self, label: Label) -> Iterable[int]:
        """Return the classes whose pods carry the label."""
        self._catch_up()
        return self._with_label.get(label, ())

    def holders(self, one: PodClass) -> Iterator[tuple[AffinityTerm, list[int]]]:
        """Yield anti-affinity terms that may match a class, each with the classes that have it, in ascending order."""
        self._catch_up()
        for label in (None, *one.identity.labels.items()):
            for term in self._by_required_label.get(label, ()):
                yield term, self._holders[term]

    def _catch_up(self) -> None:
        for one in self._classes[self._entered :] if self._entered < len(self._classes) else ():
            for label in one.identity.labels.items():
                self._with_label.setdefault(label, []).append(one.index)
            for selector in one.selectors():
                self._mentioned.update(key for key, *_ in selector or ())
            for term in dict.fromkeys(one.anti_affinity):
                if term not in self._holders:
                    for required in next(required_labels(term.selector), (None,)):
                        self._by_required_label.setdefault(required, {})[term] = None
                self._holders.setdefault(term, []).append(one.index)
        self._entered = len(self._classes)


def required_labels(selector: Expressions | None) -> Iterator[list[Label]]:
    """Yield, for each expression that requires one of some labels, those labels."""
    for key, operator, values in selector or ():
        if operator == "In":
            yield [(key, value) for value in values]
