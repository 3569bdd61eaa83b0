"""`plimsoll simulate`: runs the real operator on an embedded cluster in virtual time. A day takes seconds."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import click
import msgspec
import yaml
from msgspec.structs import replace
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from plimsoll.cli.config_options import BadConfiguration, effective
from plimsoll.config import Config
from plimsoll.config.sources import ConfigurationError
from plimsoll.controllers.build import MAKERS
from plimsoll.embedded_cluster.clocks import EPOCH
from plimsoll.embedded_cluster.node_spec import NodeLineError, parse_node_line
from plimsoll.explain.targets import Explainer
from plimsoll.kube.types.durations import parse_duration
from plimsoll.runtime.logging import set_up_logging
from plimsoll.simulate.assertions import AssertionSyntaxError, parse_assertion
from plimsoll.simulate.changes import ChangeError, ScenarioChange, parse_event, parse_scenario, parse_set
from plimsoll.simulate.html_report import SimulationRun, elapsed_text, html_report
from plimsoll.simulate.invariants import TimelineEntry
from plimsoll.simulate.report import FIGURES, Prices, assumptions
from plimsoll.simulate.run import Scenario, run_simulation
from plimsoll.simulate.world import SimulationError, World
from plimsoll.snapshot.documents import BadFileError, documents_in
from plimsoll.snapshot.view import from_documents


@click.command(
    epilog="""\b
Examples:
  plimsoll snapshot -o now.yaml
  plimsoll simulate --snapshot now.yaml --for 24h --set deployment/web:replicas=40@10m
  plimsoll simulate --snapshot now.yaml --for 6h --event reclaim:node/worker-7@1h
  plimsoll simulate --snapshot now.yaml --for 24h --config plimsoll.yaml --config tighter.yaml --html report.html
  plimsoll simulate --snapshot now.yaml --for 24h --assert 'evictions<=10' --assert 'spotShare>=60%'
  plimsoll simulate --nodes "3 zone=a class=spot" --nodes "3 zone=b class=on-demand" -f web.yaml --for 1h

\b
A scenario file holds changes (as for --set), events (as for --event), and curves:
  curves:
    - {workload: deployment/web, low: 4, high: 40, period: 24h}

\b
--assert compares a field of `-o json` with a number, for CI: evictions<=10, cost<5.5, spotShare>=60%.

\b
Exit codes:
  0: no invariant violated, and every assertion holds
  1: an invariant was violated, an assertion failed, or the simulation itself failed
  2: invalid options
"""
)
@click.option("--snapshot", metavar="FILE", type=click.Path(path_type=Path), help="The cluster at the start.")
@click.option(
    "--nodes",
    "node_lines",
    metavar="LINE",
    multiple=True,
    help="Nodes to add, such as '3 zone=a class=spot'. Repeatable.",
)
@click.option(
    "-f", "files", metavar="FILE", multiple=True, type=click.Path(path_type=Path), help="Objects to create. Repeatable."
)
@click.option(
    "--for", "duration", metavar="DURATION", default="1h", show_default=True, help="How much time to simulate."
)
@click.option(
    "--set", "sets", metavar="CHANGE", multiple=True, help="KIND/[NAMESPACE/]NAME:FIELD=VALUE@WHEN. Repeatable."
)
@click.option(
    "--event", "events", metavar="EVENT", multiple=True, help="reclaim:node/NAME@WHEN or nodes:LINE@WHEN. Repeatable."
)
@click.option(
    "--scenario", metavar="FILE", type=click.Path(path_type=Path), help="A file with changes, events and curves."
)
@click.option("--config", "configs", metavar="FILE", multiple=True, type=click.Path(path_type=Path),
              help="The operator's configuration. Repeat it to compare several.")  # fmt: skip
@click.option(
    "--price", "prices", metavar="WHAT=PRICE", multiple=True,
    help="Price per hour: per CPU (spot=0.012, on-demand=0.04) or per machine of an instance type (m5.large=0.096). Repeatable.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Seed for generated names and random choices.")
@click.option("--story", is_flag=True, help="Print what happens as it happens, with the time since the start.")
@click.option(
    "--assert", "assertions", metavar="CONDITION", multiple=True, help="Fail unless it holds: 'evictions<=10'. Repeatable."
)  # fmt: skip
@click.option(
    "--html", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
    help="Write a self-contained report with plots and a comparison.",
)  # fmt: skip
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def simulate(
    *, configs: tuple[Path, ...], story: bool, assertions: tuple[str, ...], html: Path | None,
    output: Literal["text", "json"], **options: Any,
) -> None:  # fmt: skip
    """Simulate the operator: evictions, unavailable replicas, nodes, cost, spot share, and violated invariants."""
    set_up_logging("error", "console")
    loaded = [(str(path), _config(path)) for path in configs] or [("defaults", _config(None))]
    try:
        wanted = [parse_assertion(text) for text in assertions]
    except AssertionSyntaxError as error:
        raise click.BadParameter(str(error), param_hint="--assert") from None
    try:
        scenario = _scenario(**options)
        runs = [_run(name, config, scenario, story=story and output == "text") for name, config in loaded]
    except (ChangeError, NodeLineError, BadFileError, SimulationError) as error:
        raise click.ClickException(str(error)) from None
    except ConfigurationError as error:
        raise BadConfiguration(error) from None
    failures = [f"{run.name}: {failure}" for run in runs for one in wanted if (failure := one.failure(run.report))]
    if output == "json":
        reports = {run.name: run.report for run in runs}
        click.echo(msgspec.json.format(msgspec.json.encode(reports), indent=2).decode())
    else:
        _print_table(runs)
    if html is not None:
        _write_html(html, runs, failures)
    for failure in failures:
        click.echo(f"assertion failed: {failure}", err=True)
    sys.exit(1 if failures or any(run.report.violations for run in runs) else 0)


def _config(path: Path | None) -> Config:
    """The configuration of a file; without one, the defaults with every controller enabled."""
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
        raise click.UsageError("no cluster to start from: give --snapshot FILE, or --nodes LINE and -f FILE")
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


def _run(name: str, config: Config, scenario: Scenario, *, story: bool) -> SimulationRun:
    timeline: Sequence[TimelineEntry] = ()
    began = EPOCH
    printed = 0
    with _progress() as progress:
        task = progress.add_task(name, total=scenario.seconds, of=f"{scenario.seconds / 3600:g} h", done="0 h")

        def seen(world: World, elapsed: float) -> None:
            nonlocal timeline, began, printed
            began = world.clock.now() - timedelta(seconds=elapsed)
            timeline = world.invariants.timeline
            progress.update(task, completed=elapsed, done=f"{elapsed / 3600:.1f} h")
            for one in timeline[printed:] if story else ():
                since = elapsed_text((one.at - began).total_seconds())
                click.echo(f"{since:>9}  {one.what}" + (f": {one.why}" if one.why else ""))
            printed = len(timeline)

        report = run_simulation(config, scenario, seen=seen)
    return SimulationRun(name, report, timeline, began)


def _progress() -> Progress:
    """A bar on standard error; nothing if that is not a terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[done]} of {task.fields[of]}"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def _print_table(runs: Sequence[SimulationRun]) -> None:
    table = Table(title=f"{runs[0].report.hours:g} h simulated")
    table.add_column("")
    for run in runs:
        table.add_column(run.name, justify="right")
    for label, text, _ in FIGURES:
        table.add_row(label, *(text(run.report) for run in runs))
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    click.echo(assumptions([run.report for run in runs]))
    for run in runs:
        for violation in run.report.violations[:20]:
            click.echo(click.style(f"{run.name}: {violation}", fg="red"))


def _write_html(path: Path, runs: Sequence[SimulationRun], failures: Sequence[str]) -> None:
    command = " ".join(["plimsoll", *map(shlex.quote, sys.argv[1:])])
    try:
        path.write_text(html_report(runs, command, failures), encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"--html {path}: {error.strerror}") from None
