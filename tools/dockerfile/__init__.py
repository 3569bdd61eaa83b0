"""BuildKit's parser and checks of Dockerfiles, built from its Go module into the user's cache: no container engine is needed."""

from __future__ import annotations

from pathlib import Path

from tools.controlplane.gobuild import build_go_module


def dockerfile_checker() -> Path:
    """A program that takes a Dockerfile's path; the first call builds it."""
    return build_go_module(Path(__file__).parent / "module", "dockerfile-checker")
