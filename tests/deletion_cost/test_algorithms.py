"""Algorithms are found where they are installed; one that is broken is reported and stops nobody else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from plimsoll.controllers.deletion_cost.algorithms.registry import Algorithms, AssignSettings, ValuedPod, discover
from plimsoll.controllers.deletion_cost.algorithms.zone import Zone
from plimsoll.controllers.deletion_cost.spec import ENABLED, TYPE
from plimsoll.kube.types.apps import Deployment
from plimsoll.kube.types.core import Node
from tests import build
from tests.deletion_cost.scene import TOP, Scene, foreign_value, our_value, written

EXAMPLE = Path(__file__).parents[2] / "examples" / "deletion_cost_by_age"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that packages can be installed into, for one test."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path


def install(site: Path, name: str, code: str, entry: str) -> None:
    """A package as an installer would leave it."""
    (site / f"{name}.py").write_text(code)
    information = site / f"{name}-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[plimsoll.deletion_cost]\n{entry}\n")


GOOD = "class Good:\n    name = 'good'\n    def assign(self, workload, pods, nodes, settings): return {}\n"


def test_our_own_is_found_like_any_other() -> None:
    assert isinstance(discover().usable["zone"], Zone)


def test_the_example_package_is_installed_and_used(site: Path) -> None:
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is None:
        assert os.environ.get("CI", "").lower() != "true", "uv must be there in CI"
        pytest.skip("uv is not installed, and nothing else builds a package without a network")
    where = ["--python", sys.executable, "--target", str(site)]
    subprocess.run([uv, "pip", "install", "--quiet", "--offline", "--no-deps", *where, str(EXAMPLE)], check=True)
    found = discover()
    assert {"by-age", "zone"} <= set(found.names)

    scene = Scene({ENABLED: "true", TYPE: "by-age"}, algorithms=found.usable)
    for name, hours in (("young", 5), ("old", 8), ("oldest", 9)):
        born = (build.START - timedelta(hours=hours)).isoformat()
        scene.add(name, "a", creationTimestamp=born)
    scene.add("stranded", node="node without a label")
    decision = scene.decide()
    assert decision.problems == (), "an algorithm that needs no label asks for none"
    assert [departure.pod for departure in decision.orders[0].departures][1:] == ["young", "old", "oldest"]
    scene.carry_out(decision)
    assert scene.decide(after=timedelta(days=1)).actions == ()


def test_configuration_limits_which_are_active(site: Path) -> None:
    install(site, "good_one", GOOD, "good = good_one:Good")
    assert {"good", "zone"} <= set(discover().names)
    assert discover(["good"]).names == ("good",)


@pytest.mark.parametrize(
    ("code", "entry", "said"),
    [
        ("raise RuntimeError('no licence')", "bad = broken:Bad", "no licence"),
        ("x = 1", "bad = broken:Missing", "Missing"),
        ("class Bad:\n    def __init__(self): raise OSError('disk')", "bad = broken:Bad", "disk"),
        ("class Bad:\n    name = 'bad'", "bad = broken:Bad", "assign"),
        (GOOD, "bad = broken:Good", '"good"'),
        ("Bad = 5", "bad = broken:Bad", "not callable"),
        ("import sys\nsys.exit(3)", "bad = broken:Bad", "SystemExit"),
    ],
)
def test_one_that_fails_to_load_is_reported_and_the_others_work(site: Path, code: str, entry: str, said: str) -> None:
    install(site, "broken", code, entry)
    with capture_logs() as logs:
        found = discover()
    assert "zone" in found.names
    assert "bad" not in found.names
    assert said in found.failures["bad"]
    assert [(record["log_level"], record["type"]) for record in logs] == [("error", "bad")]


def test_one_that_is_asked_for_and_not_installed_is_reported() -> None:
    with capture_logs() as logs:
        found = discover(["zone", "by-moon"])
    assert found.names == ("zone",)
    assert "by-moon" in found.failures
    assert logs


def test_whoever_asks_for_a_broken_type_is_told_why_it_cannot_be_used() -> None:
    scene = Scene({ENABLED: "true", TYPE: "bad"}, failures={"bad": "bad:Bad failed to load: OSError('disk')"})
    (problem,) = scene.decide().problems
    assert "OSError('disk')" in problem.message
    assert "Available types: zone" in problem.message


class Answering:
    """Gives the answer that it was made with, or raises it."""

    name = "answering"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def assign(
        self, workload: Deployment, pods: Sequence[ValuedPod], nodes: Mapping[str, Node], settings: AssignSettings
    ) -> Mapping[str, int]:
        if isinstance(self.answer, BaseException):
            raise self.answer
        answer: Mapping[str, int] = self.answer({replica.pod.name: replica for replica in pods})
        return answer


def scene_with(answer: Any) -> Scene:
    return Scene({ENABLED: "true", TYPE: "answering"}, algorithms={"answering": Answering(answer), "zone": Zone()})


@pytest.mark.parametrize(
    "answer",
    [
        ZeroDivisionError("oh"),
        lambda pods: {"no such uid": 1},
        lambda pods: {pods["one"].pod.uid: 2**31},
        lambda pods: {pods["one"].pod.uid: "7"},
        lambda pods: {pods["one"].pod.uid: None},
        lambda pods: None,
    ],
)
def test_one_that_raises_or_talks_nonsense_is_a_problem_of_its_users_alone(answer: Any) -> None:
    scene = scene_with(answer)
    scene.add("one", "a")
    decision = scene.decide()
    assert decision.actions == ()
    (problem,) = decision.problems
    assert problem.code == "AlgorithmFailed"
    assert '"answering"' in problem.message
    scene.annotate(type="zone")
    assert written(scene.decide()) == {"one": TOP}


def test_none_may_overwrite_what_is_not_ours() -> None:
    scene = scene_with(lambda pods: {replica.pod.uid: 1 for replica in pods.values()})
    scene.add("theirs", "a", annotations=foreign_value(5))
    scene.add("ours", "a", annotations=our_value(5, kind="answering"))
    assert written(scene.decide()) == {"ours": 1}


def test_what_an_algorithm_is_given() -> None:
    given: dict[str, Any] = {}

    class Curious:
        name = "curious"

        def assign(self, workload, pods, nodes, settings):
            given.update(workload=workload, pods=pods, nodes=nodes, settings=settings)
            return {}

    scene = Scene({ENABLED: "true", TYPE: "curious"}, algorithms={"curious": Curious()})
    scene.annotate(spread_by="rack")
    scene.add("one", "a", annotations=foreign_value(5))
    scene.add("leaving", "a", terminating=True)
    scene.add("pending", phase="Pending", node="")
    scene.decide()
    assert given["workload"] == scene.deployment
    assert [(r.pod.name, r.value_owner, r.cost) for r in given["pods"]] == [
        ("one", "foreign", 5),
        ("pending", "nobody", None),
    ]
    assert set(given["nodes"]) == {"node-a"}
    assert given["settings"] == AssignSettings("rack", TOP, scene.now)


def test_no_algorithm_at_all() -> None:
    scene = Scene()
    scene.controller = type(scene.controller)(scene.controller._settings, Algorithms())
    (problem,) = scene.decide().problems
    assert "Available types: none" in problem.message


class Suiting:
    """Wants the workloads that its answer says."""

    name = "suiting"

    def __init__(self, answer: bool | Exception) -> None:
        self.answer = answer

    def suits(self, workload: Deployment) -> bool:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def assign(self, workload, pods, nodes, settings):
        return {replica.pod.uid: 7 for replica in pods}


@pytest.mark.parametrize(("answer", "cost"), [(True, 7), (False, TOP), (RuntimeError("no idea"), TOP)])
def test_an_algorithm_may_be_the_default_of_workloads_that_it_suits(answer: bool | Exception, cost: int) -> None:
    scene = Scene(algorithms={"suiting": Suiting(answer), "zone": Zone()})
    scene.add("one", "a")
    assert written(scene.decide()) == {"one": cost}


def test_whoever_names_a_type_gets_that_one() -> None:
    scene = Scene({ENABLED: "true", TYPE: "zone"}, algorithms={"suiting": Suiting(True), "zone": Zone()})
    scene.add("one", "a")
    assert written(scene.decide()) == {"one": TOP}
