"""Builds the six programs of a control plane from their Go modules.

The newest supported Kubernetes has a committed go.mod and go.sum. `k8s.io/kubernetes` refers to its staging modules by
paths inside its own repository, so a module that requires it must replace each of them with the release of the same
number; for another version that list is read from the version's own go.mod, and go.sum is filled by `go` itself, which
checks every download against the public checksum database.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tools.controlplane.gobuild import GoBuildError, build_once, cache_directory, go_build, go_command
from tools.controlplane.versions import GO_MODULES, Versions, newest_kubernetes

_KUBERNETES_PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")


@dataclass(frozen=True)
class _Program:
    name: str
    package: str
    module: Path
    ldflags: str
    # "mod" where go.mod and go.sum are generated and `go` completes them, "readonly" where they are committed.
    mod: str


def cached(versions: Versions) -> Path:
    """Where the programs of these versions are, or will be."""
    return cache_directory() / versions.cache_key


def build(versions: Versions) -> Path:
    """Build all programs of a control plane, unless the cache has them, and return their directory."""

    def fill(directory: Path) -> None:
        started = time.monotonic()
        sources = directory / ".modules"
        sources.mkdir()
        print(f"building a control plane ({versions}), once; this takes some minutes", file=sys.stderr, flush=True)
        programs = _programs(versions, sources)
        for number, program in enumerate(programs, 1):
            label = f"[{number}/{len(programs)}] {program.name}"
            go_build(
                program.module,
                program.package,
                directory / program.name,
                ldflags=program.ldflags,
                label=label,
                mod=program.mod,
            )
        print(f"control plane built in {time.monotonic() - started:.0f} s: {cached(versions)}", file=sys.stderr)

    return build_once(cached(versions), fill)


def _programs(versions: Versions, sources: Path) -> list[_Program]:
    """In the order in which they are built: what others wait for first."""
    kubernetes, mod = GO_MODULES / "kubernetes", "readonly"
    if versions.kubernetes != newest_kubernetes():
        kubernetes, mod = sources / "kubernetes", "mod"
        kubernetes.mkdir()
        (kubernetes / "go.mod").write_text(kubernetes_go_mod(versions.kubernetes, _own_go_mod(versions.kubernetes)))
    stamp = _version_stamp(versions.kubernetes)
    return [
        _Program("etcd", "go.etcd.io/etcd/server/v3", GO_MODULES / "etcd", "-s -w", "readonly"),
        *(_Program(name, f"k8s.io/kubernetes/cmd/{name}", kubernetes, stamp, mod) for name in _KUBERNETES_PROGRAMS),
        _Program("kwok", "sigs.k8s.io/kwok/cmd/kwok", GO_MODULES / "kwok", "-s -w", "readonly"),
    ]


def kubernetes_go_mod(version: str, own_go_mod: str) -> str:
    """The go.mod of a module that builds Kubernetes `version`, given the go.mod of `k8s.io/kubernetes` itself."""
    staging = re.findall(r"^\s*(k8s\.io/\S+) => \./staging/", own_go_mod, re.MULTILINE)
    language = re.search(r"^go \S+$", own_go_mod, re.MULTILINE)
    if not staging or language is None:
        raise GoBuildError(f"the go.mod of k8s.io/kubernetes v{version} lists no staging modules: cannot build it")
    # The defaults of the Go runtime that this release was tested with (TLS, HTTP/2), not those of the newest toolchain.
    runtime_defaults = re.search(r"^godebug default=\S+$", own_go_mod, re.MULTILINE)
    release = f"v0.{version.removeprefix('1.')}"
    return "\n".join(
        [
            "module plimsoll.example/controlplane/kubernetes",
            "",
            language[0],
            "",
            *([runtime_defaults[0], ""] if runtime_defaults else []),
            "tool (",
            *(f"\tk8s.io/kubernetes/cmd/{name}" for name in _KUBERNETES_PROGRAMS),
            ")",
            "",
            f"require k8s.io/kubernetes v{version}",
            "",
            "replace (",
            *(f"\t{module} => {module} {release}" for module in sorted(staging)),
            ")",
            "",
        ],
    )


def _own_go_mod(version: str) -> str:
    go = go_command()
    if go is None:
        raise GoBuildError(f"cannot build Kubernetes {version}: there is no `go` on the PATH")
    done = subprocess.run(
        [go, "mod", "download", "-json", f"k8s.io/kubernetes@v{version}"],
        check=False,
        capture_output=True,
        text=True,
    )
    answer = json.loads(done.stdout or "{}")
    if "GoMod" not in answer:
        raise GoBuildError(f"cannot fetch Kubernetes {version}: {answer.get('Error') or done.stderr.strip()}")
    return Path(answer["GoMod"]).read_text()


def _version_stamp(version: str) -> str:
    # Without it the server calls itself v0.0.0-master, which clients that compare versions fail to parse.
    major, minor, _ = version.split(".")
    values = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    stamps = [f"-X {package}.{name}={value}" for package in packages for name, value in values.items()]
    return " ".join(["-s -w", *stamps])
