"""`plimsoll validate`: check files before they are applied, for example in CI."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import click
import msgspec

from plimsoll.cli.config_options import BadConfiguration, config_option, set_option
from plimsoll.cli.connection import configuration
from plimsoll.config.sources import ConfigurationError
from plimsoll.controllers.build import placement_settings
from plimsoll.controllers.deletion_cost.algorithms.registry import discover
from plimsoll.explain.validate import FileProblem, Rules, autoscaler_warnings, problems_in
from plimsoll.snapshot.documents import BadFileError, Document, documents_in, parse

SUFFIXES = (".yaml", ".yml", ".json")


@click.command(
    epilog="""\b
Examples:
  plimsoll validate deploy/                        every YAML and JSON file below a folder
  plimsoll validate web.yaml --fix                 fix what is unambiguous ("70" → "70%")
  kustomize build . | plimsoll validate -
  plimsoll validate deploy/ -o json

\b
Exit codes: 0 no problems, 1 problems found, 2 usage error.
"""
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--fix", is_flag=True, help="Write unambiguous corrections back to the files.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@config_option
@set_option
def validate(*, files: tuple[Path, ...], fix: bool, output: Literal["text", "json"], **options: Any) -> None:
    """Check annotations and custom resources in FILE... by the operator's own rules, without a cluster."""
    config = configuration(**options)
    try:
        ports = 60 if config.allocation.reduced_ports else 100
        rules = Rules(placement_settings(config), discover(config.controllers.deletion_cost.algorithms), ports)
    except ConfigurationError as error:
        raise BadConfiguration(error) from None
    faults: list[FileProblem] = []
    unreadable: list[str] = []
    every: list[Document] = []
    for path in _expanded(files):
        try:
            documents = list(documents_in([path], sys.stdin.read() if str(path) == "-" else None))
            found = [fault for document in documents for fault in problems_in(document, rules)]
            if fix and str(path) != "-":
                found = _fix(path, found, rules)
        except BadFileError as error:
            unreadable.append(str(error))
            continue
        every += documents
        faults += found
    warnings = list(autoscaler_warnings(every, rules.placement))
    _print(faults, warnings, unreadable, len(every), output)
    sys.exit(1 if faults or unreadable else 0)


def _expanded(files: Sequence[Path]) -> list[Path]:
    found: list[Path] = []
    for path in files:
        if path.is_dir():
            below = sorted(one for one in path.rglob("*") if one.suffix in SUFFIXES and one.is_file())
            if not below:
                raise click.BadParameter(f"{path} contains no {', '.join(SUFFIXES)} file", param_hint="FILE...")
            found += below
        else:
            found.append(path)
    return found


def _fix(path: Path, faults: Sequence[FileProblem], rules: Rules) -> list[FileProblem]:
    """Write corrections back to front, so that positions stay valid. Returns the remaining problems."""
    fixable = [fault for fault in faults if fault.fix is not None]
    if not fixable:
        return list(faults)
    text = path.read_text(encoding="utf-8")
    for fault in sorted(fixable, key=lambda one: -one.place.start):
        text = f"{text[: fault.place.start]}{fault.fix}{text[fault.place.end :]}"
        click.echo(f"{fault.place}: {fault.object}: {fault.key}: {fault.value} → {fault.fix}", err=True)
    documents: list[Document] = list(parse(text, str(path)))
    path.write_text(text, encoding="utf-8")
    return [fault for document in documents for fault in problems_in(document, rules)]


def _as_json(problems: Iterable[FileProblem]) -> list[dict[str, Any]]:
    return [
        {
            "file": one.place.file,
            "line": one.place.line,
            "object": one.object,
            "key": one.key,
            "value": one.value,
            "rule": one.rule,
        }
        for one in problems
    ]


def _print(
    faults: Sequence[FileProblem],
    warnings: Sequence[FileProblem],
    unreadable: Sequence[str],
    looked_at: int,
    output: str,
) -> None:
    if output == "json":
        report = {
            "objects": looked_at,
            "faults": _as_json(faults),
            "warnings": _as_json(warnings),
            "unreadable": list(unreadable),
        }
        click.echo(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
        return
    for fault in faults:
        click.echo(str(fault))
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    for message in unreadable:
        click.echo(message)
    wrong = len(faults) + len(unreadable)
    verdict = "no problems" if not wrong else "1 problem" if wrong == 1 else f"{wrong} problems"
    click.echo(f"{looked_at} {'object' if looked_at == 1 else 'objects'}, {verdict}", err=True)
