"""Which controllers a configuration asks for."""

from __future__ import annotations

from plimsoll.cli.config_options import BadConfiguration
from plimsoll.config import Config
from plimsoll.config.sources import ConfigurationError
from plimsoll.controllers.build import controllers
from plimsoll.runtime.decision import Controller


def controllers_for(config: Config) -> tuple[Controller, ...]:
    """The controllers that a configuration asks for, or the refusal of one that there is not."""
    try:
        return controllers(config)
    except ConfigurationError as error:
        raise BadConfiguration(error) from None
