"""Helm, built from its Go module into the user's cache, for whoever has none."""

from __future__ import annotations

from pathlib import Path

from tools.controlplane.gobuild import build_go_module

PACKAGE = "helm.sh/helm/v4/cmd/helm"


def helm() -> Path:
    """The program; the first call builds it, which takes minutes."""
    return build_go_module(Path(__file__).parent / "module", "helm", package=PACKAGE)
