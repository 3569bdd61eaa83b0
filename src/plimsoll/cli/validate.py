"""`plimsoll validate`: what people wrote for the operator, checked without a cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from plimsoll.assembly import placement_settings
from plimsoll.cli.configuration import config_option, effective, set_option
from plimsoll.cli.manifest_files import FaultyFileError, Found, objects
from plimsoll.config import Config
from plimsoll.deletion_cost import spec as deletion_cost
from plimsoll.deletion_cost.algorithms import discover
from plimsoll.kube.resources import DEPLOYMENTS, NAMESPACES, STATEFULSETS
from plimsoll.kube.types import Deployment, KubeObject, Namespace, StatefulSet
from plimsoll.placement import spec as placement
from plimsoll.placement.workload import Unmanaged, judge, reading_of

_KNOWN = (DEPLOYMENTS, STATEFULSETS, NAMESPACES)
_KEYS = {
    "spotalis.io/": (
        placement.ENABLED, placement.MIN_ON_DEMAND, placement.SPOT_PERCENTAGE, placement.SCHEDULE, placement.DURATION,
        placement.TIMEZONE,
    ),
    deletion_cost.PREFIX: (deletion_cost.ENABLED, deletion_cost.SPREAD_BY, deletion_cost.TYPE),
}  # fmt: skip
# A percentage without its sign, as it stands in a file: the key, the number, perhaps in quotes, and perhaps a comment.
_UNSIGNED = re.compile(
    rf"""^(\s*["']?{re.escape(placement.SPOT_PERCENTAGE)}["']?\s*:\s*)(["']?)(\d{{1,3}})\2(\s*(?:\#.*)?)$""",
    re.MULTILINE,
)


class Complaint(NamedTuple):
    """One fault: where it is and what the rule is."""

    file: Path
    object: str
    key: str
    rule: str

    def __str__(self) -> str:
        key = f" {self.key}:" if self.key else ""
        return f"{self.file}: {self.object}:{key} {self.rule}"


@click.command(
    epilog="""\b
Examples:
  plimsoll validate manifests/*.yaml
  plimsoll validate --fix web.yaml        write what is safe to mend: "70" becomes "70%"

\b
Exit code 1: something is wrong; one line for each fault, with file, object, key and rule.
"""
)
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--fix", is_flag=True, help="Mend in the files what has only one meaning.")
@set_option
@config_option
def validate(files: Sequence[Path], fix: bool, **options: Any) -> None:
    """Check the annotations of workloads and namespaces in YAML files, without a cluster."""
    config = effective(dry_run=True, controllers=None, log_format=None, log_level=None, **options).config
    complaints: list[Complaint] = []
    checked = 0
    for file in files:
        if fix:
            _mend(file)
        try:
            for found in objects(file, _KNOWN):
                checked += 1
                complaints += _faults(file, found, config)
        except FaultyFileError as error:
            raise click.ClickException(str(error)) from None
    for complaint in complaints:
        click.echo(str(complaint))
    if complaints:
        raise SystemExit(1)
    click.echo(f"{checked} object{'' if checked == 1 else 's'} checked, nothing is wrong", err=True)


def _faults(file: Path, found: Found, config: Config) -> Iterator[Complaint]:
    obj = found.object
    named = (
        f"{found.resource.kind} {obj.namespace}/{obj.name}" if obj.namespace else f"{found.resource.kind} {obj.name}"
    )

    def complaint(key: str, rule: str) -> Complaint:
        return Complaint(file, named, key, rule)

    for key in obj.annotations:
        for prefix, known in _KEYS.items():
            if key.startswith(prefix) and key not in known:
                yield complaint(key, f"there is no such annotation; expected one of {', '.join(known)}")
    if isinstance(obj, Namespace):
        faults: list[placement.Fault] = []
        placement.read_window(obj.annotations, faults)
        yield from (complaint(one.key, f'"{one.value}": {one.rule}') for one in faults)
    elif isinstance(obj, Deployment | StatefulSet):
        settings = placement_settings(config)
        reading = reading_of(obj, settings)
        yield from (complaint(one.key, f'"{one.value}": {one.rule}') for one in reading.faults)
        verdict = judge(obj, settings)
        if not reading.faults and isinstance(verdict, Unmanaged) and verdict.at_fault:
            yield complaint("", verdict.reason.message)
    if isinstance(obj, Deployment):
        yield from (complaint("", reason) for reason in _deletion_cost_faults(obj, config))


def _deletion_cost_faults(obj: KubeObject, config: Config) -> tuple[str, ...]:
    algorithms = discover(config.controllers.deletion_cost.algorithms)
    try:
        deletion_cost.read_settings(obj.annotations, algorithms.usable)
    except deletion_cost.InvalidSettingsError as error:
        return error.reasons
    return ()


def _mend(file: Path) -> None:
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError):
        return  # said when it is read for checking
    mended = _UNSIGNED.sub(r'\1"\3%"\4', text)
    if mended != text:
        file.write_text(mended)
        click.echo(f"{file}: mended", err=True)
