"""`plimsoll config show` and `plimsoll config check`."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from plimsoll.config.settings import SETTINGS
from plimsoll.runtime.exit_codes import ExitCode
from tests.cli.command import plimsoll


def test_show_prints_every_value_and_where_it_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "plimsoll.yaml"
    file.write_text("web:\n  port: 9000\nkubernetes: {qps: 5}\n")
    result = plimsoll(
        "config", "show", "--config", str(file), "--dry-run", "--controllers", "deletion-cost,placement",
        "--set", "kubernetes.qps=7", env={"PLIMSOLL_LOGGING_LEVEL": "debug"},
    )  # fmt: skip
    assert result.exit_code == 0
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert f"port: 9000  # {file}:2:9" in lines
    assert "qps: 7  # --set kubernetes.qps" in lines
    assert "level: debug  # PLIMSOLL_LOGGING_LEVEL" in lines
    assert "readOnlyMode: true  # --dry-run" in lines
    assert "enabled: [deletion-cost, placement]  # --controllers" in lines
    assert "burst: 1000  # default" in lines


def test_what_show_prints_is_a_file_that_says_the_same(tmp_path: Path) -> None:
    options = ["--set", "operator.auditLog=", "--set", "web.host=*", "--set", "operator.watchNamespaces=a,123"]
    first = plimsoll("config", "show", "-o", "json", *options)
    file = tmp_path / "saved.yaml"
    file.write_text(plimsoll("config", "show", *options).stdout)
    second = plimsoll("config", "show", "-o", "json", "--config", str(file))
    assert json.loads(first.stdout)["config"] == json.loads(second.stdout)["config"]
    assert yaml.safe_load(file.read_text()) == json.loads(first.stdout)["config"]


def test_show_as_json_names_each_key_once() -> None:
    shown = json.loads(plimsoll("config", "show", "-o", "json").stdout)
    assert list(shown["origins"]) == list(SETTINGS)
    assert shown["config"]["operator"]["leaderElection"]["leaseDuration"] == "15s"


def test_errors_go_to_standard_error_without_a_traceback(tmp_path: Path) -> None:
    file = tmp_path / "plimsoll.yaml"
    file.write_text("web: {prot: 1}\n")
    result = plimsoll("config", "show", "--config", str(file), "--set", "web.port=x", env={"PLIMSOLL_X": "1"})
    assert result.exit_code == ExitCode.BAD_CONFIGURATION
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        f'{file}:1:7: web.prot: unknown key (value "1"); did you mean port?',
        'PLIMSOLL_X: unknown variable (value "1"); `plimsoll config show` lists the valid keys',
        '--set web.port: web.port: "x" is not a whole number from 0 to 65535',
        "3 errors in the configuration; docs/configuration.md lists every key",
    ]


def test_set_wants_a_key_and_a_value() -> None:
    result = plimsoll("config", "show", "--set", "web.port")
    assert result.exit_code == ExitCode.BAD_CONFIGURATION
    assert '"web.port" has no "="; write it like --set web.port=8081' in result.stderr
    result = plimsoll("config", "show", "--set", "web.prt=1")
    assert result.stderr.splitlines()[0] == ('--set web.prt: web.prt: unknown key (value "1"); did you mean web.port?')


def test_check_names_every_error_of_every_file_and_looks_at_nothing_else(tmp_path: Path) -> None:
    good, bad, worse = (tmp_path / name for name in ("good.yaml", "bad.yaml", "worse.yaml"))
    good.write_text("web: {port: 1}")
    bad.write_text("web: {port: a}")
    worse.write_text("web: {port: b, host: 1}")
    result = plimsoll("config", "check", str(good), env={"PLIMSOLL_NONSENSE": "1"})
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"{good}: ok\n", "")
    result = plimsoll("config", "check", str(good), str(bad), str(worse))
    assert result.exit_code == ExitCode.BAD_CONFIGURATION
    assert result.stdout == f"{good}: ok\n"
    assert [line.split(": ")[0] for line in result.stderr.splitlines()] == [
        f"{bad}:1:13",
        f"{worse}:1:13",
        f"{worse}:1:22",
        "3 errors in the configuration; docs/configuration.md lists every key",
    ]


def test_check_reads_standard_input() -> None:
    assert plimsoll("config", "check", "-", stdin="web: {port: 1}").exit_code == 0
    result = plimsoll("config", "check", "-", stdin="web: {port: a}")
    assert result.exit_code == ExitCode.BAD_CONFIGURATION
    assert result.stderr.startswith("standard input:1:13: web.port: ")
