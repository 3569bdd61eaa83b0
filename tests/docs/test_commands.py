"""Every command that our pages show is run, and every YAML document is read by what it is meant for."""

from __future__ import annotations

import os
import re
import shlex
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.command import plimsoll
from tests.docs.stage import Stage, deployment
from tests.docs.written import ROOT, Command, commands, yaml_documents
from tools.controlplane.binaries import ControlPlaneUnavailableError, find_binaries

pytestmark = pytest.mark.process

# What is typed is what counts: the same command on two pages is run once.
COMMANDS = list({command.text: command for command in reversed(commands())}.values())[::-1]
DOCUMENTS = yaml_documents()
POD = "web-5d9c-abcde"  # the pages' name of a pod; a cluster gives it another one
# A day of the stage costs seconds of both cores and shows no more than two hours of it: that the command can be typed.
LONG, SHORTER = re.compile(r"--for \d+h\b"), "--for 2h"
# Serve until they are stopped, and have started once they say this.
SERVING = {"run": "serving health and metrics", "cluster": "The cluster is at ", "dashboard": "http://127.0.0.1"}
# Too long, too large or with effects beyond the stage: asked in a way that says whether they could be run.
ASKED = (
    (re.compile(r"^make (?P<rest>.*)$"), "make --dry-run {rest}"),
    (re.compile(r"^(?P<rest>(\w+=\S+ )?\.venv/bin/pytest .*)$"), "{rest} --collect-only --noconftest -q"),
    (re.compile(r"^(?P<rest>\.venv/bin/pre-commit \w+)"), "{rest} --help"),
    (re.compile(r"^(?P<rest>(\.venv/bin/)?python -m (benchmarks[\w.]*|tools\.\w+ \w+))"), "{rest} --help"),
    (re.compile(r"^(?P<rest>helm (install|upgrade) .*)$"), "{rest} --dry-run=client"),
    (re.compile(r"^(?P<rest>helm uninstall .*)$"), "{rest} --ignore-not-found"),
    # kubectl sends these as protobuf, which the embedded cluster reads of a few kinds only.
    (
        re.compile(r"^(?P<rest>kubectl create (clusterrolebinding|clusterrole|secret|namespace) .*)$"),
        "{rest} --dry-run=client",
    ),
    # Containers of the embedded cluster only pretend to run: nothing is logged or listened to in them.
    (
        re.compile(r"^kubectl -n (?P<space>\S+) (?P<verb>logs|port-forward) (?P<what>\S+)"),
        "kubectl -n {space} get {what}",
    ),
    (re.compile(r"^(?P<rest>export .*\$\(.*)$"), "bash -n <<< {rest!r}"),
)
IN_THE_REPOSITORY = (
    "make ",
    ".venv/bin/pytest",
    ".venv/bin/pre-commit",
    "python -m",
    ".venv/bin/python -m",
    "PLIMSOLL_FAULT",
)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, helm: Path) -> Iterator[Stage]:
    try:
        kubectl = find_binaries(may_build=False).path("kubectl")
    except ControlPlaneUnavailableError as error:
        pytest.skip(str(error))
    made = Stage(tmp_path_factory.mktemp("stage"), kubectl, helm)
    yield made
    made.stop()


@pytest.mark.parametrize("command", COMMANDS, ids=[f"{one.where} {one.text[:60]}" for one in COMMANDS])
def test_it_can_be_typed(command: Command, stage: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = LONG.sub(SHORTER, command.text)
    if POD in text:
        text = text.replace(POD, stage.pod_of_shop())
    words = shlex.split(text)
    program = Path(words[0]).name
    if program == "plimsoll" and words[1] in SERVING:
        serve(stage, text, words[1], tmp_path / "output")
    elif program == "plimsoll" and not {"|", "&&", ">"} & set(words):
        monkeypatch.chdir(stage.directory)
        done = plimsoll(*words[1:], env=stage.variables, stdin="y\n")
        # The thresholds of an example need not hold on the cluster of this test: such an assertion is reported with exit code 1.
        fails = "--assert" in words and "assertion failed" in done.stderr
        assert done.exit_code == (1 if fails else 0), done.output + done.stderr
    else:
        for pattern, asked in ASKED:
            if found := pattern.match(text):
                text = asked.format(**found.groupdict())
                break
        if command.text.startswith(IN_THE_REPOSITORY):
            text = f"cd {ROOT} && {text}"
        ran = stage.run(text, stdin="y\n")
        assert ran.returncode == 0, ran.stdout + ran.stderr


def serve(stage: Stage, text: str, subcommand: str, output: Path) -> None:
    process = stage.start(text, output)
    try:
        end = time.monotonic() + 120
        while SERVING[subcommand] not in output.read_text() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        assert SERVING[subcommand] in output.read_text(), output.read_text()
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0, output.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.mark.parametrize("document", DOCUMENTS, ids=[one.where for one in DOCUMENTS])
def test_it_says_what_can_be_followed(document: Command, stage: Stage, tmp_path: Path) -> None:
    for part in yaml.safe_load_all(document.text):
        assert isinstance(part, dict)
        check_document(part, stage, tmp_path / "document.yaml")


def check_document(part: Mapping[str, Any], stage: Stage, file: Path) -> None:
    if "kind" in part:
        file.write_text(yaml.safe_dump(dict(part)))
        done = plimsoll("validate", str(file))
    elif "annotations" in part.get("metadata", {}):
        whole = deployment("default")
        whole["metadata"]["annotations"] = part["metadata"]["annotations"]
        file.write_text(yaml.safe_dump(whole))
        done = plimsoll("validate", str(file))
        # A type that only an example brings along is the one thing that cannot be known here.
        if "by-age" in file.read_text():
            assert "by-age" in done.output
            return
    elif "config" in part:
        file.write_text(yaml.safe_dump(dict(part)))
        ran = stage.run(f"helm template plimsoll charts/plimsoll -f {shlex.quote(os.fspath(file))}")
        assert ran.returncode == 0, ran.stderr
        return
    elif set(part) == {"status"}:
        return  # what a container's status looks like, shown and not to be written
    else:
        file.write_text(yaml.safe_dump(dict(part)))
        done = plimsoll("config", "check", str(file))
    assert done.exit_code == 0, done.output + done.stderr
