"""Short ways to load a configuration from text in a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from plimsoll.config.load import Flag, Loaded, load
from plimsoll.config.sources import ConfigurationError


def load_text(
    directory: Path, text: str, environ: Mapping[str, str] | None = None, flags: Sequence[Flag] = ()
) -> Loaded:
    file = directory / "plimsoll.yaml"
    file.write_text(text, "utf-8")
    return load(file, environ=environ, flags=flags)


def problems_in(
    directory: Path, text: str, environ: Mapping[str, str] | None = None, flags: Sequence[Flag] = ()
) -> list[str]:
    """What is wrong, a line each, with the file called plimsoll.yaml."""
    with pytest.raises(ConfigurationError) as refusal:
        load_text(directory, text, environ, flags)
    return [str(problem).replace(f"{directory}/", "") for problem in refusal.value.problems]
