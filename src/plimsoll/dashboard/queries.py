"""Explanations on request: the same that `plimsoll explain` gives, of what the operator sees now."""

from __future__ import annotations

import asyncio

from plimsoll.explain.records import Answer
from plimsoll.explain.targets import Explainer, key_of
from plimsoll.kube.cache.store import View
from plimsoll.runtime.clock import Clock


class Asking:
    def __init__(self, explainer: Explainer, view: View, clock: Clock) -> None:
        self._explainer = explainer
        self._view = view
        self._clock = clock
        # The controllers that answer are not made for two threads, and a second question may well wait.
        self._one_at_a_time = asyncio.Lock()

    async def explain(self, kind: str, namespace: str, name: str) -> Answer:
        """Raises ValueError for a kind that there is not, LookupError for an object that there is not.

        In a thread, on a copy: whether a node could go is a matter of seconds in a large cluster.
        """
        key = key_of(f"{kind}/{name}", namespace, self._view)
        async with self._one_at_a_time:
            view, now = self._view.copy(), self._clock.now()
            return await asyncio.to_thread(self._explainer.explain, key, view, now)
