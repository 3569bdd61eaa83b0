"""promtool, built from Prometheus' Go module into the user's cache, for whoever has none."""

from __future__ import annotations

from pathlib import Path

from tools.controlplane.gobuild import build_go_module

PACKAGE = "github.com/prometheus/prometheus/cmd/promtool"
# Service discovery is none of a checker's business, and brings the client library of every cloud along.
TAGS = "remove_all_sd"


def promtool() -> Path:
    """The program; the first call builds it, which takes minutes."""
    return build_go_module(Path(__file__).parent / "module", "promtool", package=PACKAGE, tags=TAGS)
