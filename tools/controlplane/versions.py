"""Which Kubernetes, etcd and KWOK make up a control plane, and the key under which their binaries are cached."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

GO_MODULES = Path(__file__).parent / "gomodules"

# A minor alone stands for a fixed patch, so that the same command means the same binaries on every machine.
PINNED_PATCHES = {"1.34": "1.34.4", "1.35": "1.35.4", "1.36": "1.36.3", "1.37": "1.37.1"}


class UnsupportedVersionError(ValueError):
    """The requested Kubernetes version is not one that Plimsoll is tested on."""


@dataclass(frozen=True)
class Versions:
    """One combination of the parts of a control plane, each without a leading `v`."""

    kubernetes: str
    etcd: str
    kwok: str

    @property
    def cache_key(self) -> str:
        """The name of the cache directory: binaries of other versions or machines use other directories."""
        return f"kubernetes-{self.kubernetes}-etcd-{self.etcd}-kwok-{self.kwok}-{machine()}"

    @property
    def kubernetes_minor(self) -> str:
        """`1.37` of `1.37.1`."""
        return minor_of(self.kubernetes)

    def __str__(self) -> str:
        return f"Kubernetes v{self.kubernetes}, etcd v{self.etcd}, kwok v{self.kwok}"


def wanted_versions(kubernetes: str | None = None) -> Versions:
    """Return the versions for a request such as `1.34.4`, `v1.34` or None ($KUBERNETES, then the newest)."""
    wish = kubernetes if kubernetes is not None else os.environ.get("KUBERNETES", "")
    return Versions(
        kubernetes=_kubernetes_version(wish.strip()),
        etcd=required_version(GO_MODULES / "etcd" / "go.mod", "go.etcd.io/etcd/server/v3"),
        kwok=required_version(GO_MODULES / "kwok" / "go.mod", "sigs.k8s.io/kwok"),
    )


def newest_kubernetes() -> str:
    """The default: the Kubernetes whose go.mod and go.sum are committed."""
    return required_version(GO_MODULES / "kubernetes" / "go.mod", "k8s.io/kubernetes")


def required_version(go_mod: Path, module: str) -> str:
    """The version of `module` that a go.mod requires. The go.mod files are the one place where versions are written."""
    match = re.search(rf"^(?:require)?\s*{re.escape(module)} v(\S+)", go_mod.read_text(), re.MULTILINE)
    if match is None:
        raise ValueError(f"{go_mod} does not require {module}")
    return match[1]


def minor_of(version: str) -> str:
    """`1.37` of `1.37.1`."""
    return ".".join(version.split(".")[:2])


def machine() -> str:
    """This machine as Go names it, such as `linux-amd64`."""
    processors = {"x86_64": "amd64", "aarch64": "arm64"}
    processor = platform.machine().lower()
    return f"{platform.system().lower()}-{processors.get(processor, processor)}"


def _kubernetes_version(wish: str) -> str:
    if not wish:
        return newest_kubernetes()
    match = re.fullmatch(r"v?(\d+\.\d+)(\.\d+)?", wish)
    if match is None:
        raise UnsupportedVersionError(
            f"KUBERNETES={wish!r} is not a version: expected a minor such as 1.34 or a release such as 1.34.4",
        )
    minor, patch = match[1], match[2]
    if minor not in PINNED_PATCHES:
        raise UnsupportedVersionError(
            f"Kubernetes {wish} is not supported: Plimsoll is tested on {', '.join(PINNED_PATCHES)}",
        )
    return minor + patch if patch else PINNED_PATCHES[minor]
