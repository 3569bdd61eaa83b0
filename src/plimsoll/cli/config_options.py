"""Command-line options for the configuration, and the error for an invalid one."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar, get_args

import click

from plimsoll.config import Config, LogFormat, LogLevel
from plimsoll.config.load import SERVICE_ACCOUNT_NAMESPACE, Flag, Loaded, load
from plimsoll.config.sources import ConfigurationError
from plimsoll.runtime.decision import Controller
from plimsoll.runtime.exit_codes import ExitCode

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])


class BadConfiguration(click.ClickException):
    """Prints one line per problem on standard error, without a traceback."""

    exit_code = ExitCode.BAD_CONFIGURATION

    def __init__(self, error: ConfigurationError) -> None:
        super().__init__(str(error))
        self.problems = error.problems

    def show(self, file: IO[Any] | None = None) -> None:
        for problem in self.problems:
            click.echo(str(problem), file=file, err=True)
        errors = "1 error" if len(self.problems) == 1 else f"{len(self.problems)} errors"
        click.echo(f"{errors} in the configuration; docs/configuration.md lists every key", file=file, err=True)


def _setting(_: click.Context, parameter: click.Parameter, texts: Sequence[str]) -> list[Flag]:
    flags = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise click.BadParameter(f'"{text}" has no "="; write it like --set web.port=8081', param=parameter)
        flags.append(Flag(key, value, f"--set {key}"))
    return flags


config_option = click.option(
    "--config",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Read settings from a YAML file; - is standard input.",
)
set_option = click.option(
    "--set",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_setting,
    help="Set any key, e.g. web.port=8081. Repeatable.",
)
controllers_option = click.option(
    "--controllers",
    metavar="NAMES",
    help="Run only these, separated by commas: placement, deletion-cost, nodegroups, allocation.",
)


def settings_options(command: AnyFunction) -> AnyFunction:
    """Add the options of commands that use the effective configuration."""
    for option in (
        click.option("--log-level", type=click.Choice(get_args(LogLevel)), help="Minimum level of log records."),
        click.option(
            "--log-format",
            type=click.Choice(get_args(LogFormat)),
            help="Log format: text for people, json for machines.",
        ),
        set_option,
        controllers_option,
        click.option("--dry-run", is_flag=True, help="Decide and report, but write nothing (operator.readOnlyMode)."),
        config_option,
    ):
        command = option(command)
    return command


def effective(
    *,
    file: Path | None,
    dry_run: bool,
    controllers: str | None,
    settings: Sequence[Flag],
    log_format: str | None,
    log_level: str | None,
) -> Loaded:
    """The configuration that `plimsoll run` would use: file, environment and options."""
    named = [
        Flag("operator.readOnlyMode", "true", "--dry-run") if dry_run else None,
        Flag("controllers.enabled", controllers, "--controllers") if controllers is not None else None,
        Flag("logging.format", log_format, "--log-format") if log_format else None,
        Flag("logging.level", log_level, "--log-level") if log_level else None,
    ]
    flags = [*settings, *(flag for flag in named if flag)]
    try:
        return load(file, environ=os.environ, flags=flags, service_account_namespace=SERVICE_ACCOUNT_NAMESPACE)
    except ConfigurationError as error:
        raise BadConfiguration(error) from None


def as_written(file: Path | None, flags: Sequence[Flag] = ()) -> Loaded:
    """The configuration from a file and options, without the environment."""
    try:
        return load(file, flags=flags)
    except ConfigurationError as error:
        raise BadConfiguration(error) from None


def controllers_for(config: Config) -> tuple[Controller, ...]:
    """The controllers that a configuration enables. Raises BadConfiguration if it names an unknown one."""
    from plimsoll.controllers.build import controllers  # noqa: PLC0415 - `plimsoll config` starts without controllers

    try:
        return controllers(config)
    except ConfigurationError as error:
        raise BadConfiguration(error) from None
