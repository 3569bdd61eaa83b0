"""Finds the programs of a control plane: a directory that was given, the cache, or a build."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.controlplane import build as _build
from tools.controlplane.gobuild import GoBuildError, go_command
from tools.controlplane.versions import UnsupportedVersionError, Versions, minor_of, wanted_versions

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok")
# In this order; both name a directory that holds the programs.
DIRECTORY_VARIABLES = ("PLIMSOLL_CONTROLPLANE", "KUBEBUILDER_ASSETS")

_NOT_TESTED = (
    "Without it nothing is tested against a real API server, its controllers and its scheduler "
    "(the tests marked `real`); unit tests and the embedded cluster still run."
)


class ControlPlaneUnavailableError(RuntimeError):
    """No control plane is available; the message says what is missing, what to do and what stays untested."""


@dataclass(frozen=True)
class Binaries:
    """A complete set of programs."""

    directory: Path
    versions: Versions
    # Where they come from, for messages: "$KUBEBUILDER_ASSETS", "cache", "built".
    origin: str

    def path(self, program: str) -> Path:
        """The program's file."""
        return self.directory / program


def find_binaries(
    kubernetes: str | None = None,
    *,
    may_build: bool = True,
    environment: Mapping[str, str] = os.environ,
) -> Binaries:
    """The programs for a Kubernetes version (None: $KUBERNETES, else the newest supported).

    Searched in $PLIMSOLL_CONTROLPLANE, $KUBEBUILDER_ASSETS and the cache; otherwise built if Go is installed.
    """
    wish = kubernetes if kubernetes is not None else environment.get("KUBERNETES", "")
    try:
        versions = wanted_versions(wish)
    except UnsupportedVersionError as error:
        raise ControlPlaneUnavailableError(f"{error}\n{_NOT_TESTED}") from error
    for variable in DIRECTORY_VARIABLES:
        if environment.get(variable):
            return _given(variable, Path(environment[variable]), versions if wish else None)
    directory = _build.cached(versions)
    if directory.exists():
        return _complete(directory, versions, "cache")
    if not may_build:
        raise ControlPlaneUnavailableError(f"{versions} is not built: {directory} does not exist.\n{_NOT_TESTED}")
    if go_command() is None:
        raise ControlPlaneUnavailableError(
            f"No real control plane ({versions}): it is not in the cache ({directory}), and there is no `go` on the "
            f"PATH to build it. Install Go, or set {DIRECTORY_VARIABLES[0]} to a directory with "
            f"{', '.join(PROGRAMS)}.\n{_NOT_TESTED}",
        )
    try:
        return _complete(_build.build(versions), versions, "built")
    except GoBuildError as error:
        raise ControlPlaneUnavailableError(f"{versions} could not be built: {error}\n{_NOT_TESTED}") from error


def _given(variable: str, directory: Path, wanted: Versions | None) -> Binaries:
    missing = [program for program in PROGRAMS if not os.access(directory / program, os.X_OK)]
    if missing:
        what = f"is missing {', '.join(missing)}" if directory.is_dir() else "is not a directory"
        raise ControlPlaneUnavailableError(
            f"{variable}={directory} {what}. It must hold {', '.join(PROGRAMS)}; unset it to have them built.\n"
            f"{_NOT_TESTED}",
        )
    found = Versions(*(_version_of(directory / program) for program in ("kube-apiserver", "etcd", "kwok")))
    # A run that was asked for 1.34 and silently tests 1.37 would be worse than none.
    if wanted is not None and minor_of(found.kubernetes) != wanted.kubernetes_minor:
        raise ControlPlaneUnavailableError(
            f"KUBERNETES asks for {wanted.kubernetes_minor}, but {variable}={directory} holds {found.kubernetes}: "
            "unset one of the two.",
        )
    return Binaries(directory, found, f"${variable}")


def _complete(directory: Path, versions: Versions, origin: str) -> Binaries:
    missing = [program for program in PROGRAMS if not (directory / program).is_file()]
    if missing:
        raise ControlPlaneUnavailableError(
            f"the cache is damaged: {directory} is missing {', '.join(missing)}. Delete that directory and build again.",
        )
    return Binaries(directory, versions, origin)


def _version_of(program: Path) -> str:
    try:
        done = subprocess.run([program, "--version"], check=True, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.SubprocessError) as error:
        raise ControlPlaneUnavailableError(f"{program} --version failed: {error}") from error
    match = re.search(r"v?(\d+\.\d+\.\d+\S*)", done.stdout + done.stderr)
    if match is None:
        raise ControlPlaneUnavailableError(f"{program} --version reports no version: {done.stdout.strip()!r}")
    return match[1]
