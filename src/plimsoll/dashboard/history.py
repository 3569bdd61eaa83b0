"""How large groups were over the last day, kept in memory: a restart begins anew."""

from __future__ import annotations

from collections import deque

from plimsoll.dashboard.records import Point

SECONDS_KEPT = 24 * 3600
SECONDS_BETWEEN = 60
# A point a minute for a day; a group that changes more often is remembered for less long.
_MOST_POINTS = SECONDS_KEPT // SECONDS_BETWEEN


class Histories:
    def __init__(self) -> None:
        self._points: dict[str, deque[Point]] = {}

    def of(self, group: str) -> list[Point]:
        return list(self._points.get(group, ()))

    def add(self, group: str, point: Point) -> None:
        """A point between two of the same height is left out: a line through its neighbours passes there anyway."""
        points = self._points.setdefault(group, deque(maxlen=_MOST_POINTS))
        if len(points) >= 2 and points[-1][1:] == points[-2][1:] == point[1:]:
            points[-1] = point
        else:
            points.append(point)
        while points and points[0][0] < point[0] - SECONDS_KEPT:
            points.popleft()

    def forget_before(self, moment: int) -> None:
        """Groups that were not seen since are forgotten; those that are gone for a while keep their past."""
        for group in [name for name, points in self._points.items() if points[-1][0] < moment]:
            del self._points[group]
