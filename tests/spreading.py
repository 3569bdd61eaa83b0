"""Which process runs what, where the suite is spread over several (`pytest -n`).

Files go as wholes, as `--dist loadfile` has it, but those that take a cluster or processes of their own come first: a long one
that comes last leaves every other process idle. With `--histories-aside` the last process takes histories, one by one, then plain
functions, and nothing else, at the lowest priority: tests on a real control plane wait more than they compute, and neither a history
in virtual time nor a function that only computes has a deadline that it could miss. A coroutine may have one, of fractions of a
second. What is not done aside, the others do in the end.
"""

from __future__ import annotations

import inspect
import os
from fnmatch import fnmatch
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

# Seconds each rather than milliseconds: apart from the unit tests, which people run after every change.
HISTORIES = (
    "tests/model/*",
    "tests/simulate/*",
    "*_histories.py",
    "*_in_the_model.py",
    "*_state_machine.py",
    "tests/benchmarks/test_packing_*.py",
    "tests/deletion_cost/test_fewest_rewrites.py",
    "tests/deletion_cost/test_even_scale_down.py",
    "tests/scheduling/test_odd_catalogues.py",
)
# Longer than any other of their sort, and as long as many of them: begun last, they would be waited for by everyone.
LONGEST = ("tests/docs/test_commands.py",)
_LEAST_PRIORITY = 19


def is_history(nodeid: str) -> bool:
    return any(fnmatch(_file(nodeid), pattern) for pattern in HISTORIES)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--histories-aside", action="store_true", help="the last process runs histories alone, niced")


def pytest_configure(config: pytest.Config) -> None:
    worker: dict[str, Any] = getattr(config, "workerinput", {})
    if worker and _is_aside(config, worker["workerid"], worker["workercount"]):
        os.nice(_LEAST_PRIORITY)


def _is_aside(config: pytest.Config, worker: str, workers: int) -> bool:
    return bool(config.getoption("histories_aside")) and workers > 1 and worker == f"gw{workers - 1}"


def pytest_itemcollected(item: pytest.Item) -> None:
    if is_history(item.nodeid):
        item.add_marker("history")


# Last, because others mark in the same hook what is real.
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What may stand aside comes last, histories first: whoever spreads the tests knows their names and their order alone."""
    rank: dict[str, int] = {}  # by file
    for item in items:
        rank[_file(item.nodeid)] = min(rank.get(_file(item.nodeid), 4), _rank(item))
    items.sort(key=lambda item: (rank[_file(item.nodeid)], _file(item.nodeid) not in LONGEST))


def _rank(item: pytest.Item) -> int:
    for rank, mark in enumerate(("real", "process")):
        if item.get_closest_marker(mark):
            return rank
    if is_history(item.nodeid):
        return 3
    return 2 if inspect.iscoroutinefunction(getattr(item, "obj", None)) else 4


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    return HistoriesAside(config, log) if config.getoption("histories_aside") else None


class HistoriesAside(LoadFileScheduling):  # type: ignore[misc]  # xdist says nothing of its types
    """In the order of collection, which `--no-loadscope-reorder` keeps."""

    _plain: frozenset[str] = frozenset()  # files of plain functions alone

    def schedule(self) -> None:
        if self.collection is None:
            ids = next(iter(self.registered_collections.values()))
            first = max((place for place, nodeid in enumerate(ids, 1) if is_history(nodeid)), default=len(ids))
            self._plain = frozenset(map(self._split_scope, ids[first:]))
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if is_history(nodeid) else _file(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        mine = self._mine(node)
        if mine is not None:
            self.workqueue.move_to_end(mine, last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: Any) -> None:
        if self._stands_aside(node) and self._mine(node) is None and not node.shutting_down:
            node.shutdown()  # it would start a control plane of its own for what is left, or miss deadlines
        else:
            super()._reschedule(node)

    def _mine(self, node: Any) -> str | None:
        if not self._stands_aside(node):
            return next((scope for scope in self.workqueue if not is_history(scope)), None)
        histories = (scope for scope in self.workqueue if is_history(scope))
        return next(histories, None) or next((scope for scope in self.workqueue if scope in self._plain), None)

    def _stands_aside(self, node: Any) -> bool:
        return _is_aside(self.config, node.gateway.id, self.numnodes)
