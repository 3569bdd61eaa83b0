"""`plimsoll config`: show the effective configuration with its origins, or check a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec
import yaml

from plimsoll.cli.config_options import BadConfiguration, as_written, effective, settings_options
from plimsoll.cli.convert import convert
from plimsoll.config import Config
from plimsoll.config.load import Loaded
from plimsoll.config.settings import TREE, SettingGroup
from plimsoll.config.sources import ConfigProblem, ConfigurationError


@click.group()
def config() -> None:
    """Show the effective configuration, check a file, or convert that of another system."""


config.add_command(convert)


@config.command()
@settings_options
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def show(*, output: str, **options: Any) -> None:
    """Print the configuration that `plimsoll run` would use, and where each value comes from.

    In YAML the origin of a value is a comment, so the output can be saved and used as a configuration file.

    \b
    Examples:
      plimsoll config show --config plimsoll.yaml
      PLIMSOLL_WEB_PORT=9090 plimsoll config show -o json
    """
    loaded = effective(**options)
    if output == "json":
        shown = {"config": plain(TREE, loaded.config), "origins": loaded.origins}
        click.echo(msgspec.json.format(msgspec.json.encode(shown), indent=2).decode())
    else:
        click.echo("\n".join(_commented(TREE, loaded, "")))


@config.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
def check(files: tuple[Path, ...]) -> None:
    """Check configuration files. Environment variables are ignored.

    Prints every error with its line and exits with 2, or prints ok per file.

    \b
    Examples:
      plimsoll config check plimsoll.yaml
      kubectl get configmap plimsoll -o jsonpath='{.data.plimsoll\\.yaml}' | plimsoll config check -
    """
    problems: list[ConfigProblem] = []
    for file in files:
        try:
            as_written(file)
        except BadConfiguration as error:
            problems += error.problems
        else:
            click.echo(f"{file}: ok")
    if problems:
        raise BadConfiguration(ConfigurationError(problems))


def plain(group: SettingGroup, settings: Config) -> dict[str, Any]:
    """The configuration as plain values, with durations as text."""
    return {
        name: plain(member, settings)
        if isinstance(member, SettingGroup)
        else member.form.plain(member.value_in(settings))
        for name, member in group.members.items()
    }


def _commented(group: SettingGroup, loaded: Loaded, indent: str) -> list[str]:
    lines = []
    for name, member in group.members.items():
        if isinstance(member, SettingGroup):
            lines += [f"{indent}{name}:", *_commented(member, loaded, indent + "  ")]
        else:
            value = member.form.plain(member.value_in(loaded.config))
            text = yaml.safe_dump(value, default_flow_style=True, width=10_000).removesuffix("\n...\n").strip()
            lines.append(f"{indent}{name}: {text}  # {loaded.origins[member.key]}")
    return lines
