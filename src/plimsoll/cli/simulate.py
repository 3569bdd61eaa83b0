"""`plimsoll simulate`: the real operator on an embedded cluster in virtual time. A day takes seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import click
import msgspec
import yaml
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from plimsoll.cli.config_options import BadConfiguration, effective
from plimsoll.config import Config
from plimsoll.config.sources import ConfigurationError
from plimsoll.controllers.build import MAKERS
from plimsoll.embedded_cluster.node_spec import NodeLineError, parse_node_line
from plimsoll.explain.targets import Explainer
from plimsoll.kube.types.durations import parse_duration
from plimsoll.runtime.logging import set_up_logging
from plimsoll.simulate.changes import ChangeError, ScenarioChange, parse_event, parse_scenario, parse_set
from plimsoll.simulate.report import Prices, Report
from plimsoll.simulate.run import Scenario, run_simulation
from plimsoll.simulate.world import World
from plimsoll.snapshot.documents import BadFileError, documents_in
from plimsoll.snapshot.view import from_documents


@click.command(
    epilog="""\b
Examples:
  plimsoll snapshot -o now.yaml
  plimsoll simulate --snapshot now.yaml --for 24h --set deployment/web:replicas=40@10m
  plimsoll simulate --snapshot now.yaml --for 6h --event reclaim:node/worker-7@1h
  plimsoll simulate --snapshot now.yaml --for 24h --config plimsoll.yaml --config tighter.yaml      compare two
  plimsoll simulate --nodes "3 zone=a class=spot" --nodes "3 zone=b class=on-demand" -f web.yaml --for 1h

\b
A scenario file holds changes (as for --set), events (as for --event), and curves:
  curves:
    - {workload: deployment/web, low: 4, high: 40, period: 24h}

\b
Exit codes: 0 nothing was done that must not be, 1 something was, 2 the command cannot be understood.
"""
)
@click.option("--snapshot", metavar="FILE", type=click.Path(path_type=Path), help="What is there at the start.")
@click.option(
    "--nodes", "node_lines", metavar="LINE", multiple=True, help="Further nodes, such as '3 zone=a class=spot'."
)
@click.option("-f", "files", metavar="FILE", multiple=True, type=click.Path(path_type=Path), help="Objects to create.")
@click.option("--for", "duration", metavar="DURATION", default="1h", show_default=True, help="How long.")
@click.option(
    "--set", "sets", metavar="CHANGE", multiple=True, help="KIND/[NAMESPACE/]NAME:FIELD=VALUE@WHEN; repeatable."
)
@click.option("--event", "events", metavar="EVENT", multiple=True, help="reclaim:node/NAME@WHEN, nodes:LINE@WHEN.")
@click.option(
    "--scenario", metavar="FILE", type=click.Path(path_type=Path), help="Changes, events and curves in a file."
)
@click.option("--config", "configs", metavar="FILE", multiple=True, type=click.Path(path_type=Path),
              help="The operator's settings; several are compared.")  # fmt: skip
@click.option(
    "--price", "prices", metavar="WHAT=PRICE", multiple=True,
    help="Of an hour: of a CPU (spot=0.012, on-demand=0.04), or of a whole machine of an instance type (m5.large=0.096).",
)  # fmt: skip
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Decides names and what the cluster leaves to chance."
)
@click.option("--story", is_flag=True, help="Tell what happened, too.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def simulate(*, configs: tuple[Path, ...], story: bool, output: Literal["text", "json"], **options: Any) -> None:
    """Say what would happen: evictions, missing replicas, nodes, cost and spot share, and any rule that would be broken."""
    set_up_logging("error", "console")
    loaded = [(str(path), _config(path)) for path in configs] or [("defaults", _config(None))]
    try:
        scenario = _scenario(**options)
        found = [(name, _run(name, config, scenario, tell=story and output == "text")) for name, config in loaded]
    except (ChangeError, NodeLineError, BadFileError) as error:
        raise click.ClickException(str(error)) from None
    except ConfigurationError as error:
        raise BadConfiguration(error) from None
    if output == "json":
        told = dict(found)
        click.echo(msgspec.json.format(msgspec.json.encode(told), indent=2).decode())
    else:
        _tell(found)
    sys.exit(1 if any(report.violations for _, report in found) else 0)


def _config(path: Path | None) -> Config:
    """What the file says; without one every controller, for there is nothing here that two of them could fight over."""
    found = effective(file=path, dry_run=False, controllers=None, settings=(), log_format=None, log_level=None).config
    if path is None and not found.controllers.enabled:
        return replace(found, controllers=replace(found.controllers, enabled=tuple(MAKERS)))
    return found


def _scenario(
    *,
    snapshot: Path | None,
    node_lines: Sequence[str],
    files: Sequence[Path],
    duration: str,
    sets: Sequence[str],
    events: Sequence[str],
    scenario: Path | None,
    prices: Sequence[str],
    seed: int,
) -> Scenario:
    for line in node_lines:
        parse_node_line(line)
    if snapshot is None and not node_lines:
        raise click.UsageError("nothing to start from: --snapshot FILE, or --nodes LINE and -f FILE")
    changes: list[ScenarioChange] = [*map(parse_set, sets), *map(parse_event, events)]
    if scenario is not None:
        changes += parse_scenario(_yaml(scenario), str(scenario))
    snapshot_view = None
    if snapshot is not None:
        watches = Explainer(Config()).watches
        snapshot_view = from_documents(documents_in([snapshot]), watches, datetime.now(UTC))
    documents = [document.body for document in documents_in(files)]
    try:
        seconds = parse_duration(duration).total_seconds()
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--for") from None
    late = [change for change in changes if change.at > seconds]
    if late:
        raise ChangeError(f"{late[0].text}: the simulation ends after {duration}")
    return Scenario(seconds, changes, snapshot_view, tuple(node_lines), documents, seed, _prices(prices))


def _yaml(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ChangeError(f"{path}: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise ChangeError(f"{path}: {error}") from None


def _prices(texts: Sequence[str]) -> Prices:
    found: dict[str, float] = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            price = float(value)
        except ValueError:
            price = -1.0
        if not name or not 0 <= price < 1e6:
            raise click.BadParameter(
                f'"{text}"; write it like spot=0.012, on-demand=0.04, or m5.large=0.096', param_hint="--price"
            )
        found[name] = price
    cpus = Prices()
    spot, on_demand = found.pop("spot", cpus.spot), found.pop("on-demand", cpus.on_demand)
    return Prices(spot, on_demand, found)


def _run(name: str, config: Config, scenario: Scenario, *, tell: bool) -> Report:
    told = 0

    def seen(world: World, elapsed: float) -> None:
        nonlocal told
        if sys.stderr.isatty():
            click.echo(f"\r{name}: {elapsed / 3600:6.1f} h of {scenario.seconds / 3600:g} h", err=True, nl=False)
        for one in world.invariants.timeline[told:] if tell else ():
            click.echo(f"{one.at:%H:%M:%S}  {one.what}" + (f": {one.why}" if one.why else ""))
        told = len(world.invariants.timeline)

    report = run_simulation(config, scenario, seen=seen)
    if sys.stderr.isatty():
        click.echo("\r", err=True, nl=False)
    return report


def _settled(report: Report) -> str:
    return "not yet" if report.settled_after_seconds is None else f"{report.settled_after_seconds:.0f} s"


_ROWS: Sequence[tuple[str, Callable[[Report], str]]] = (
    ("evictions", lambda report: str(report.evictions)),
    ("of one pod at most", lambda report: str(report.most_evictions_of_one_pod)),
    ("refused by budgets", lambda report: str(report.refused_evictions)),
    ("replica minutes missing", lambda report: f"{report.unavailable_minutes:g}"),
    ("nodes at most, at the end", lambda report: f"{report.nodes_at_most}, {report.nodes_at_end}"),
    ("machines bought, given back", lambda report: f"{report.machines_bought}, {report.machines_given_back}"),
    ("node hours", lambda report: f"{report.node_hours:g}"),
    ("cost", lambda report: f"{report.cost:.2f}"),
    ("spot share of replica hours", lambda report: f"{100 * report.spot_share:.1f} %"),
    ("settled after the last change", _settled),
    ("writes", lambda report: ", ".join(f"{count} {kind}" for kind, count in report.writes.items()) or "none"),
    ("rules broken", lambda report: str(len(report.violations)) if report.violations else "none"),
)


def _tell(found: Sequence[tuple[str, Report]]) -> None:
    table = Table(title=f"{found[0][1].hours:g} h simulated")
    table.add_column("")
    for name, _ in found:
        table.add_column(name, justify="right")
    for label, value in _ROWS:
        table.add_row(label, *(value(report) for _, report in found))
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    for name, report in found:
        for violation in report.violations[:20]:
            click.echo(click.style(f"{name}: {violation}", fg="red"))
