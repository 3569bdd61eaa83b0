"""Dry run: decisions for display where no operator decides, such as on a standby or over a snapshot file.

The controllers decide in a thread on a copy of the view, as reconcilers would, and only while a browser is connected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import structlog

from plimsoll.kube.cache.store import View
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import Key, Resource
from plimsoll.runtime.clock import Clock
from plimsoll.runtime.decision import Controller, Decision
from plimsoll.runtime.outcome import Outcome

log = structlog.get_logger()

_PAUSE_SECONDS = 1.0
_TOGETHER = 50  # keys per batch; results are shown after each batch


class DryRun:
    def __init__(
        self,
        controllers: Sequence[Controller],
        view: View,
        clock: Clock,
        *,
        wanted: Callable[[], bool],
        report: Callable[[str, Key, Decision, Outcome], None],
        interval: timedelta,
    ) -> None:
        """
        controllers: instances of their own, since controllers keep state between decisions.
        wanted: whether a browser is connected and no operator decides.
        """
        self._controllers = tuple(controllers)
        self._view = view
        self._clock = clock
        self._wanted = wanted
        self._report = report
        self._interval_seconds = interval.total_seconds()
        self._asleep = True
        self._changed: dict[tuple[Controller, Key], None] = {}
        for store in view.stores():
            store.listen(self.changed)

    def changed(self, resource: Resource[Any], before: KubeObject | None, after: KubeObject | None) -> None:
        if self._asleep:
            return  # everything is decided on waking
        for controller in self._controllers:
            if resource in controller.watches:
                for state in (before, after):
                    if state is not None:
                        self._changed.update(dict.fromkeys(_keys(controller, resource, state, self._view)))

    async def run(self) -> None:
        due = 0.0
        while True:
            if not self._wanted():
                self._asleep = True
                self._changed.clear()
            elif self._asleep or self._clock.monotonic() >= due:
                self._asleep = False
                due = self._clock.monotonic() + self._interval_seconds
                view = self._view.copy()
                await self._decide(await asyncio.to_thread(self._everything, view), view)
            elif self._changed:
                keys, self._changed = self._changed, {}
                await self._decide(keys, self._view.copy())
            await asyncio.sleep(_PAUSE_SECONDS)

    def _everything(self, view: View) -> dict[tuple[Controller, Key], None]:
        return {
            found: None
            for controller in self._controllers
            for resource in controller.watches
            for obj in view[resource]
            for found in _keys(controller, resource, obj, view)
        }

    async def _decide(self, keys: Iterable[tuple[Controller, Key]], view: View) -> None:
        now = self._clock.now()
        for some in _batches(list(keys)):
            for controller, key, decision in await asyncio.to_thread(_decisions, some, view, now):
                if self._wanted():
                    self._report(controller.name, key, decision, Outcome())


def _batches(keys: list[tuple[Controller, Key]]) -> Iterable[list[tuple[Controller, Key]]]:
    return (keys[start : start + _TOGETHER] for start in range(0, len(keys), _TOGETHER))


def _keys(controller: Controller, resource: Resource[Any], obj: KubeObject, view: View) -> list[tuple[Controller, Key]]:
    try:
        return [(controller, key) for key in controller.keys(resource, obj, view)]
    except Exception:
        log.exception("controller failed to list keys", controller=controller.name, object=str(resource.key(obj)))
        return []


def _decisions(
    keys: Iterable[tuple[Controller, Key]], view: View, now: datetime
) -> list[tuple[Controller, Key, Decision]]:
    found = []
    for controller, key in keys:
        try:
            found.append((controller, key, controller.decide(key, view, now)))
        except Exception:
            log.exception("controller failed to decide", controller=controller.name, key=str(key))
    return found
