"""Where the programs come from: a given directory, the cache, a build, and in this order."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.controlplane import binaries, build
from tools.controlplane.binaries import PROGRAMS, ControlPlaneUnavailableError, find_binaries
from tools.controlplane.versions import wanted_versions


@pytest.fixture(autouse=True)
def empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No cache, no Go, no variables, whatever this machine has."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing-here"))
    for variable in ("KUBERNETES", *binaries.DIRECTORY_VARIABLES):
        monkeypatch.delenv(variable, raising=False)


def programs_in(directory: Path, kubernetes: str = "1.37.1", *, but: tuple[str, ...] = ()) -> Path:
    directory.mkdir(parents=True)
    versions = {"etcd": "etcd Version: 3.6.16", "kwok": "kwok version v0.8.0"}
    for program in set(PROGRAMS) - set(but):
        path = directory / program
        path.write_text(f"#!/bin/sh\necho '{versions.get(program, f'Kubernetes v{kubernetes}')}'\n")
        path.chmod(0o755)
    return directory


def test_a_given_directory_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs_in(build.cached(wanted_versions()))
    ours = programs_in(tmp_path / "ours", "1.34.0")
    kubebuilder = programs_in(tmp_path / "kubebuilder")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(kubebuilder))
    assert find_binaries().directory == kubebuilder
    monkeypatch.setenv("PLIMSOLL_CONTROLPLANE", str(ours))
    found = find_binaries()
    assert (found.directory, found.origin) == (ours, "$PLIMSOLL_CONTROLPLANE")
    assert str(found.versions) == "Kubernetes v1.34.0, etcd v3.6.16, kwok v0.8.0"


@pytest.mark.parametrize("variable", binaries.DIRECTORY_VARIABLES)
def test_what_a_given_directory_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, str(programs_in(tmp_path / "some", but=("kwok", "kube-scheduler"))))
    with pytest.raises(ControlPlaneUnavailableError, match=rf"{variable}=.* is missing kube-scheduler, kwok\."):
        find_binaries()


def test_a_given_directory_that_is_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLIMSOLL_CONTROLPLANE", "/no/such/place")
    with pytest.raises(ControlPlaneUnavailableError, match="PLIMSOLL_CONTROLPLANE=/no/such/place is not a directory"):
        find_binaries()


def test_a_given_directory_of_another_version_than_asked_for_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PLIMSOLL_CONTROLPLANE", str(programs_in(tmp_path / "new", "1.37.1")))
    monkeypatch.setenv("KUBERNETES", "1.34")
    with pytest.raises(ControlPlaneUnavailableError, match=r"asks for 1\.34, but .* holds 1\.37\.1"):
        find_binaries()


def test_the_cache_is_used_per_version() -> None:
    programs_in(build.cached(wanted_versions("1.35")))
    assert find_binaries("1.35").origin == "cache"
    with pytest.raises(ControlPlaneUnavailableError):
        find_binaries("1.36")


def test_a_damaged_cache_is_reported_not_built_around() -> None:
    directory = programs_in(build.cached(wanted_versions()), but=("etcd",))
    with pytest.raises(ControlPlaneUnavailableError, match=rf"{directory} is missing etcd\. Delete that directory"):
        find_binaries()


def test_without_go_the_message_says_what_is_missing_and_what_stays_untested() -> None:
    with pytest.raises(ControlPlaneUnavailableError) as caught:
        find_binaries()
    message = str(caught.value)
    assert "there is no `go` on the PATH" in message
    assert "Kubernetes v1.37.1" in message
    assert "set PLIMSOLL_CONTROLPLANE to a directory with etcd, kube-apiserver" in message
    assert "nothing is tested against a real API server" in message


def test_with_go_it_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "go_command", lambda: "/usr/bin/go")
    monkeypatch.setattr(build, "build", lambda versions: programs_in(build.cached(versions)))
    assert find_binaries().origin == "built"
    assert find_binaries().origin == "cache"


def test_building_can_be_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "go_command", lambda: "/usr/bin/go")
    with pytest.raises(ControlPlaneUnavailableError, match="is not built"):
        find_binaries(may_build=False)


def test_an_unsupported_version_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES", "1.20")
    with pytest.raises(ControlPlaneUnavailableError, match=r"1\.20 is not supported"):
        find_binaries()
