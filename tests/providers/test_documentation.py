"""What docs/providers.md quotes is what there is."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from plimsoll.config.load import load
from plimsoll.providers import errors
from plimsoll.providers.protocol import Provider

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "providers.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_code_of_the_example_is_quoted_as_it_is() -> None:
    package = ROOT / "examples" / "provider_by_files"
    (code,) = blocks("python")
    assert code in (package / "src" / "provider_by_files" / "__init__.py").read_text()
    (entry,) = blocks("toml")
    assert entry in (package / "pyproject.toml").read_text()


def test_the_configuration_that_is_shown_can_be_used(tmp_path: Path) -> None:
    readme = (ROOT / "examples" / "provider_by_files" / "README.md").read_text()
    texts = [*blocks("yaml"), *re.findall(r"```yaml\n(.*?)```", readme, re.DOTALL)]
    assert len(texts) > 1
    for text in texts:
        file = tmp_path / "plimsoll.yaml"
        file.write_text(text)
        config = load(file).config.providers
        assert yaml.safe_load(text)["providers"]
    assert config.settings[0].startswith("files.directory=")


def test_every_verb_and_every_error_is_explained() -> None:
    verbs = [name for name in vars(Provider) if not name.startswith("_") and name != "name"]
    assert len(verbs) == 6
    assert [verb for verb in verbs if f"| `{verb}(" not in PAGE] == []
    kinds = [name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert len(kinds) == 8
    assert [kind for kind in kinds if f"`{kind}" not in PAGE] == []
