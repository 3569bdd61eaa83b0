"""Node group sizes of the last 24 hours, in memory; a restart clears them."""

from __future__ import annotations

from collections import deque

from plimsoll.dashboard.records import SizePoint

SECONDS_KEPT = 24 * 3600
SECONDS_BETWEEN = 60
# One point per minute for a day; a group that changes more often keeps a shorter history.
_MOST_POINTS = SECONDS_KEPT // SECONDS_BETWEEN


class Histories:
    def __init__(self) -> None:
        self._points: dict[str, deque[SizePoint]] = {}

    def of(self, group: str) -> list[SizePoint]:
        return list(self._points.get(group, ()))

    def add(self, group: str, point: SizePoint) -> None:
        """Add a point. A point between two equal ones is dropped: the line through its neighbours is the same."""
        points = self._points.setdefault(group, deque(maxlen=_MOST_POINTS))
        if len(points) >= 2 and points[-1][1:] == points[-2][1:] == point[1:]:
            points[-1] = point
        else:
            points.append(point)
        while points and points[0][0] < point[0] - SECONDS_KEPT:
            points.popleft()

    def forget_before(self, moment: int) -> None:
        """Drop groups without a point since `moment`."""
        for group in [name for name, points in self._points.items() if points[-1][0] < moment]:
            del self._points[group]
