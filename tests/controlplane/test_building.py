"""Building Go programs into the cache: once, atomically, one builder at a time, visibly."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tools.controlplane import build, gobuild
from tools.controlplane.gobuild import GoBuildError, build_go_module, build_once, cache_directory
from tools.controlplane.versions import GO_MODULES, Versions, newest_kubernetes

pytestmark = pytest.mark.process

# A `go` that writes what it was asked to do into the program that it builds.
FAKE_GO = """#!/bin/sh
echo "some/package" >&2
while [ $# -gt 0 ]; do
  if [ "$1" = "-o" ]; then output=$2; fi
  last=$1; shift
done
{ echo "$PWD"; echo "$last"; } > "$output"
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # Go's own cache is in the same place: without it the real compiler would begin with its standard library.
    own = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    monkeypatch.setenv("GOCACHE", os.environ.get("GOCACHE", f"{own}/go-build"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return cache_directory()


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "bin" / "go"
    path.parent.mkdir()
    path.write_text(FAKE_GO)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(path.parent), prepend=":")
    return path


def module(directory: Path, source: str = 'package main\nfunc main() { println("hello") }\n') -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "go.mod").write_text("module example.test/hello\n\ngo 1.21\n")
    (directory / "main.go").write_text(source)
    return directory


def test_the_cache_is_in_the_users_cache_directory(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache == tmp_path / "cache" / "plimsoll" / "controlplane"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_directory() == tmp_path / ".cache" / "plimsoll" / "controlplane"


def test_six_programs_are_built_in_order_with_progress(
    go: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    versions = Versions(newest_kubernetes(), "3.6.16", "0.8.0")
    directory = build.build(versions)
    assert directory == cache / versions.cache_key
    assert (directory / "kube-scheduler").read_text().splitlines() == [
        str(GO_MODULES / "kubernetes"),
        "k8s.io/kubernetes/cmd/kube-scheduler",
    ]
    shown = capsys.readouterr().err
    expected = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok"]
    starts = [shown.index(f"building [{number}/6] {name}") for number, name in enumerate(expected, 1)]
    assert starts == sorted(starts)
    assert "built [6/6] kwok: 0:00, 1 packages" in shown
    assert str(directory) in shown


def test_progress_shows_while_the_compiler_is_silent(
    go: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(gobuild, "SECONDS_BETWEEN_LINES", 0.05)
    go.write_text(FAKE_GO.replace("while", "sleep 0.5\nwhile", 1))
    build_go_module(module(tmp_path / "hello"), "hello")
    assert capsys.readouterr().err.count("  hello: 0:00, 1 packages") >= 3


def test_a_failed_build_leaves_nothing_and_says_what_the_compiler_said(go: Path, tmp_path: Path, cache: Path) -> None:
    go.write_text("#!/bin/sh\necho 'main.go:3: undefined: nonsense' >&2\nexit 1\n")
    with pytest.raises(GoBuildError, match=r"failed for hello:\n  main.go:3: undefined: nonsense"):
        build_go_module(module(tmp_path / "hello"), "hello")
    assert [path.suffix for path in (cache / "gomodules").iterdir()] == [".lock"]


def test_what_a_killed_builder_left_is_not_taken_for_a_result(tmp_path: Path) -> None:
    target = tmp_path / "programs"
    half_done = tmp_path / ".building-programs"
    half_done.mkdir()
    (half_done / "garbage").touch()
    build_once(target, lambda directory: (directory / "program").touch())
    assert [path.name for path in target.iterdir()] == ["program"]
    assert not half_done.exists()


def test_two_builders_build_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    built: list[str] = []
    second_may_come = threading.Event()

    def slowly(directory: Path) -> None:
        built.append(directory.name)
        second_may_come.set()
        time.sleep(0.3)
        (directory / "program").touch()

    first = threading.Thread(target=build_once, args=(tmp_path / "programs", slowly))
    first.start()
    second_may_come.wait()
    build_once(tmp_path / "programs", slowly)
    first.join()
    assert len(built) == 1
    assert "another process is building programs; waiting for it" in capsys.readouterr().err


def test_a_module_is_keyed_by_its_sources(go: Path, tmp_path: Path) -> None:
    source = module(tmp_path / "hello")
    first = build_go_module(source, "hello")
    stamp = first.stat().st_mtime_ns
    assert build_go_module(source, "hello") == first
    assert first.stat().st_mtime_ns == stamp
    module(source, "package main\nfunc main() {}\n")
    assert build_go_module(source, "hello") != first
    assert build_go_module(source, "hello", package="example.test/other") != build_go_module(source, "hello")
    assert first.exists()


def test_what_is_no_module_is_refused(go: Path, tmp_path: Path) -> None:
    with pytest.raises(GoBuildError, match=r"is not a Go module: it has no go\.mod"):
        build_go_module(tmp_path, "hello")


@pytest.mark.skipif(shutil.which("go") is None, reason="there is no go on the PATH")
def test_a_real_module_is_built_and_runs(tmp_path: Path) -> None:
    program = build_go_module(module(tmp_path / "hello"), "hello")
    done = subprocess.run([program], check=True, capture_output=True, text=True)
    assert done.stderr == "hello\n"


def test_another_version_gets_a_module_from_kubernetes_own_list() -> None:
    own = (
        "module k8s.io/kubernetes\n\ngo 1.24.0\n\ngodebug default=go1.24\n\n"
        "require (\n\tk8s.io/api v0.0.0\n\tk8s.io/utils v0.0.0-2024\n)\n\n"
        "replace (\n\tk8s.io/client-go => ./staging/src/k8s.io/client-go\n\tk8s.io/api => ./staging/src/k8s.io/api\n)\n"
    )
    lines = build.kubernetes_go_mod("1.34.4", own).splitlines()
    assert "go 1.24.0" in lines
    assert "godebug default=go1.24" in lines
    assert "require k8s.io/kubernetes v1.34.4" in lines
    assert lines[lines.index("replace (") + 1 : -1] == [
        "\tk8s.io/api => k8s.io/api v0.34.4",
        "\tk8s.io/client-go => k8s.io/client-go v0.34.4",
    ]


def test_the_committed_module_is_what_would_be_generated() -> None:
    committed = (GO_MODULES / "kubernetes" / "go.mod").read_text()
    staging = [line.split(" => ")[0].strip() for line in committed.splitlines() if " => " in line]
    own = "go 1.26.0\n\ngodebug default=go1.26\n" + "".join(f"\t{name} => ./staging/src/{name}\n" for name in staging)
    generated = build.kubernetes_go_mod(newest_kubernetes(), own)
    assert len(staging) > 30
    assert set(generated.splitlines()) - set(committed.splitlines()) <= {
        "require k8s.io/kubernetes v1.37.1",
        "require (",
    }
