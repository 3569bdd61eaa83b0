"""Fixtures for tests on a real control plane; a test that uses one is marked `real`.

    def test_nodes(control_plane, namespace): …          one cluster for the whole run, a namespace for the test
    def test_frozen(api_server):                         an API server alone, for the tests of one file, to be broken and mended
    def test_outage(new_control_plane):                  a cluster of one's own, to be broken
        cluster = new_control_plane(components={"scheduler": False})

Where no control plane can be had the tests are skipped with the reason; where CI=true they fail.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, Protocol

import pytest

from tests.rbac.everywhere import audited
from tools.controlplane.binaries import Binaries, ControlPlaneUnavailableError, find_binaries
from tools.controlplane.cluster import ControlPlane

SHARED_CLUSTERS = frozenset({"control_plane", "api_server"})
REAL_FIXTURES = SHARED_CLUSTERS | {"namespace", "kwok_nodes", "new_control_plane"}
# Nobody would take a new node's taints off, and what happened is forgotten within seconds.
_FLAGS_OF_AN_API_SERVER_ALONE = (
    "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
    "--etcd-compaction-interval=1s",
)
API_SERVER_ALONE = {"tokens": False, "controller-manager": False, "scheduler": False, "kwok": False}
# What is asked about the objects of every later test, and makes each of them wait where nobody answers.
_WEBHOOKS = tuple(
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations" for kind in ("mutating", "validating")
)


class StartControlPlane(Protocol):
    """`new_control_plane`: the arguments of `ControlPlane.start`."""

    def __call__(self, **arguments: Any) -> ControlPlane: ...


class _Run:
    """What this test run knows of its clusters."""

    def __init__(self) -> None:
        self.binaries: Binaries | None = None
        # Which programs ran, for the summary; a run in several processes hears it from them.
        self.ran_on: str | None = None
        self.unavailable: str | None = None
        # The clusters that tests share, by fixture, and those with which one has failed.
        self.shared: dict[str, ControlPlane] = {}
        self.shared_failed: set[str] = set()
        self.start_seconds: list[float] = []
        self.kept_logs: list[str] = []

    def start(self, **arguments: Any) -> ControlPlane:
        if self.unavailable is not None:
            if _in_ci():
                pytest.fail(self.unavailable, pytrace=False)
            pytest.skip(self.unavailable)
        binaries = self.binaries
        if "kubernetes" in arguments or "binaries" in arguments:
            binaries = arguments.pop("binaries", None) or find_binaries(arguments.pop("kubernetes"))
        started = time.monotonic()
        cluster = ControlPlane.start(binaries=binaries, **audited(arguments))
        self.start_seconds.append(time.monotonic() - started)
        if self.ran_on is None and self.binaries is not None:
            self.ran_on = f"{self.binaries.versions} ({self.binaries.origin})"
        return cluster

    @contextlib.contextmanager
    def share(self, fixture: str, **arguments: Any) -> Iterator[ControlPlane]:
        cluster = self.shared[fixture] = self.start(**arguments)
        try:
            yield cluster
        finally:
            del self.shared[fixture]
            self.stop(cluster, failed=fixture in self.shared_failed)
            self.shared_failed.discard(fixture)

    def stop(self, cluster: ControlPlane, *, failed: bool) -> None:
        cluster.stop(keep_logs=failed)
        if failed:
            self.kept_logs.append(str(cluster.logs))

    def told(self) -> dict[str, Any]:
        """What the summary needs, as plain values that pass from a process of the run to the one that reports."""
        return {
            "ran_on": self.ran_on,
            "unavailable": self.unavailable,
            "start_seconds": self.start_seconds,
            "kept_logs": self.kept_logs,
        }

    def hear(self, told: dict[str, Any]) -> None:
        self.ran_on = self.ran_on or told["ran_on"]
        self.unavailable = self.unavailable or told["unavailable"]
        self.start_seconds += told["start_seconds"]
        self.kept_logs += told["kept_logs"]


_RUN = pytest.StashKey[_Run]()
_FAILED = pytest.StashKey[bool]()
_OWN_CLUSTERS = pytest.StashKey[list[ControlPlane]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_RUN] = _Run()
    config.addinivalue_line("markers", "real: runs against the real control plane")


# First, because the selection by `-m` is made by the same hook.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _uses_real_cluster(item):
            item.add_marker("real")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Find or build the programs before the first test: a build outlasts any test's time limit."""
    config = session.config
    if config.option.collectonly or not any(_uses_real_cluster(item) for item in session.items):
        return
    run = config.stash[_RUN]
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture is not None else contextlib.nullcontext():
        try:
            run.binaries = find_binaries()
        except ControlPlaneUnavailableError as error:
            run.unavailable = str(error)


def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_FAILED] = False  # also at a second try


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and _uses_real_cluster(item):
        item.stash[_FAILED] = True
        run = item.config.stash[_RUN]
        clusters = item.stash.get(_OWN_CLUSTERS, list[ControlPlane]()).copy()
        for fixture in run.shared.keys() & set(getattr(item, "fixturenames", ())):
            run.shared_failed.add(fixture)
            clusters.append(run.shared[fixture])
        for cluster in clusters:
            report.sections.append(("logs of the control plane", str(cluster.logs)))
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    told_to_the_reporter = getattr(session.config, "workeroutput", None)
    if told_to_the_reporter is not None:
        told_to_the_reporter["clusters"] = session.config.stash[_RUN].told()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    # A process that died has told nothing; its tests are reported as failed anyway.
    told = getattr(node, "workeroutput", {}).get("clusters")
    if told is not None:
        node.config.stash[_RUN].hear(told)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    run = terminalreporter.config.stash[_RUN]
    if run.unavailable is not None:
        terminalreporter.write_sep("=", "real control plane: NONE", yellow=True)
        terminalreporter.write_line(run.unavailable)
    elif run.start_seconds:
        times = "–".join(
            dict.fromkeys(f"{seconds:.1f}" for seconds in (min(run.start_seconds), max(run.start_seconds)))
        )
        terminalreporter.write_line(
            f"real control plane: {run.ran_on}; clusters: {len(run.start_seconds)}, started in {times} s",
        )
    for logs in run.kept_logs:
        terminalreporter.write_line(f"logs of a control plane whose test failed: {logs}")


@pytest.fixture(scope="session")
def control_plane(pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """The cluster that all tests share. It has no nodes at first; see `kwok_nodes`."""
    with pytestconfig.stash[_RUN].share("control_plane") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def api_server(pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """An API server and its store alone, which the tests of one file share: each leaves it running."""
    flags = {"apiserver": _FLAGS_OF_AN_API_SERVER_ALONE}
    with pytestconfig.stash[_RUN].share("api_server", components=API_SERVER_ALONE, extra_args=flags) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _leaves_no_webhook_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Takes away what a test has left registered in the cluster that all share, and fails it."""
    if "control_plane" not in request.fixturenames:
        yield
        return
    cluster: ControlPlane = request.getfixturevalue("control_plane")
    yield
    left = [
        f"{kind}/{item['metadata']['name']}" for kind in _WEBHOOKS for item in cluster.request("GET", kind)["items"]
    ]
    for path in left:
        cluster.request("DELETE", path)
    if left and not request.node.stash[_FAILED]:
        pytest.fail(
            f"the test left behind {', '.join(left)}, and the pods of all later ones would wait for it", pytrace=False
        )


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """The name of a fresh namespace of the shared cluster."""
    name = control_plane.add_namespace()
    yield name
    control_plane.remove_namespace(name)


@pytest.fixture
def kwok_nodes(control_plane: ControlPlane) -> Iterator[Callable[[str], list[str]]]:
    """Adds nodes to the shared cluster, `kwok_nodes("3 zone=a class=spot")`, and removes them after the test."""
    names: list[str] = []

    def add(line: str) -> list[str]:
        added = control_plane.add_nodes(line)
        names.extend(added)
        return added

    yield add
    control_plane.remove_nodes(names)


@pytest.fixture
def new_control_plane(request: pytest.FixtureRequest) -> Iterator[StartControlPlane]:
    """Starts clusters of the test's own, with the arguments of `ControlPlane.start`, and stops them after the test."""
    run = request.config.stash[_RUN]
    clusters = request.node.stash[_OWN_CLUSTERS] = list[ControlPlane]()

    def start(**arguments: Any) -> ControlPlane:
        cluster = run.start(**arguments)
        clusters.append(cluster)
        return cluster

    yield start
    for cluster in clusters:
        run.stop(cluster, failed=request.node.stash[_FAILED])


def _uses_real_cluster(item: pytest.Item) -> bool:
    return not REAL_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


def _in_ci() -> bool:
    return os.environ.get("CI", "").lower() == "true"
