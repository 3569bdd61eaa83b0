"""Programs that tests run beside a control plane are built ahead. A machine that cannot build them skips those tests; CI fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.programs import main


@pytest.mark.parametrize(
    ("arguments", "ci", "code", "said"),
    [
        (["--if-possible"], "", 0, "warning"),
        (["--if-possible"], "true", 1, "error"),
        ([], "", 1, "error"),
    ],
    ids=["if possible", "in CI", "by all means"],
)
def test_a_machine_without_go(
    arguments: list[str],
    ci: str,
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CI", ci)
    assert main(arguments) == code
    assert f"{said}: cannot build helm: there is no `go` on the PATH" in capsys.readouterr().err
