"""Explanations on request: the answers of `plimsoll explain` from the operator's current view."""

from __future__ import annotations

import asyncio

from plimsoll.explain.records import Explanation
from plimsoll.explain.targets import Explainer, key_of
from plimsoll.kube.cache.store import View
from plimsoll.runtime.clock import Clock


class ExplainQueries:
    def __init__(self, explainer: Explainer, view: View, clock: Clock) -> None:
        self._explainer = explainer
        self._view = view
        self._clock = clock
        # The controllers are not thread-safe, and a second query can wait.
        self._one_at_a_time = asyncio.Lock()

    async def explain(self, kind: str, namespace: str, name: str) -> Explanation:
        """Explain an object. Raises ValueError for an unknown kind, LookupError for a missing object.

        Runs in a thread on a copy of the view: checking a node removal takes seconds in a large cluster.
        """
        key = key_of(f"{kind}/{name}", namespace, self._view)
        async with self._one_at_a_time:
            view, now = self._view.copy(), self._clock.now()
            return await asyncio.to_thread(self._explainer.explain, key, view, now)
