"""The reference pages say what the code says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from plimsoll.config.load import load
from plimsoll.config.settings import SETTINGS
from plimsoll.config.yaml_file import read_yaml
from tools.docs.configuration import configuration_page
from tools.docs.pages import PAGES, stale, write

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]


def test_no_generated_page_is_stale() -> None:
    assert stale(ROOT) == [], "run `make docs` and commit the result"


def test_a_stale_or_missing_page_is_noticed(tmp_path: Path) -> None:
    assert stale(tmp_path) == list(PAGES)
    write(tmp_path)
    assert stale(tmp_path) == []
    (tmp_path / "docs" / "cli.md").write_text("# something else")
    assert stale(tmp_path) == ["docs/cli.md"]


def test_the_check_succeeds_from_the_command_line() -> None:
    command = [sys.executable, "-m", "tools.docs", "--check"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stdout) == (0, f"{len(PAGES)} of {len(PAGES)} generated pages are up to date\n")


def test_the_page_has_every_key_with_its_variable_and_its_meaning() -> None:
    page = configuration_page()
    for key, setting in SETTINGS.items():
        assert f"`{setting.variable}`" in page
        assert f"- **`{key}`**: {setting.description}" in page


def test_the_example_in_the_page_is_a_valid_file() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", configuration_page(), re.DOTALL)
    from_file = read_yaml(example, "example")
    assert not from_file.problems
    variables = dict(re.findall(r"`(PLIMSOLL_\w+)=(\w+)`", configuration_page()))
    from_variables = load(environ=variables)
    assert {key: written.value for key, written in from_file.values.items()} == {
        key: SETTINGS[key].value_in(from_variables.config)
        for key, origin in from_variables.origins.items()
        if origin in variables
    }
