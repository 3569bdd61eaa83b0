"""The generated pages, and whether the files on disk are up to date."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from plimsoll.manifests.grafana import dashboard_text
from tools.docs.chart import alerts_file, crds_file, rbac_file, webhook_file
from tools.docs.chart_schema import schema_file
from tools.docs.cli import cli_page
from tools.docs.configuration import configuration_page
from tools.docs.decisions import decisions_page
from tools.docs.metrics import metrics_page

# By path from the repository's root.
PAGES: Mapping[str, Callable[[], str]] = {
    "docs/configuration.md": configuration_page,
    "docs/cli.md": cli_page,
    "docs/metrics.md": metrics_page,
    "docs/decisions/index.md": decisions_page,
    "charts/plimsoll/values.schema.json": schema_file,
    "charts/plimsoll/files/rbac.yaml": rbac_file,
    "charts/plimsoll/files/webhook.yaml": webhook_file,
    "charts/plimsoll/files/alerts.yaml": alerts_file,
    "charts/plimsoll/files/crds.yaml": crds_file,
    "charts/plimsoll/files/grafana.json": dashboard_text,
}


def write(root: Path) -> None:
    for name, page in PAGES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(page(), "utf-8")


def stale(root: Path) -> list[str]:
    """Pages that are missing or outdated."""
    return [
        name
        for name, page in PAGES.items()
        if not (root / name).is_file() or (root / name).read_text("utf-8") != page()
    ]
