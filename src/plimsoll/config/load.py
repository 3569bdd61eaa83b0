"""Loads the configuration: defaults < file < environment variables < flags, with the origin of each value.

The command line calls `load`. An unknown `PLIMSOLL_*` variable is an error, because it is nearly always a typo.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from plimsoll.config import Config
from plimsoll.config.forms import as_word, nearest, quoted
from plimsoll.config.settings import BY_VARIABLE, SETTINGS, VARIABLE_PREFIX, build_config, likely_meant
from plimsoll.config.sources import ConfigProblem, ConfigurationError, SourcedValue, SourceValues
from plimsoll.config.yaml_file import read_yaml

# Read by the tests to find the binaries of a real control plane; the operator ignores it.
_NOT_OURS = frozenset({"PLIMSOLL_CONTROLPLANE"})


def read_environment(environ: Mapping[str, str]) -> SourceValues:
    reading = SourceValues()
    for variable, text in sorted(environ.items()):
        if not variable.startswith(VARIABLE_PREFIX) or variable in _NOT_OURS or _service_link(variable, environ):
            continue
        if setting := BY_VARIABLE.get(variable):
            reading.take(setting, text, variable)
        else:
            guess = nearest(variable, BY_VARIABLE)
            hint = f"did you mean {guess}?" if guess else "`plimsoll config show` lists the valid keys"
            reading.refuse(variable, "", f"unknown variable (value {quoted(text)}); {hint}")
    return reading


def _service_link(variable: str, environ: Mapping[str, str]) -> bool:
    """Whether the kubelet set the variable because the namespace has a Service named plimsoll-something.

    Each such Service gives every pod <NAME>_SERVICE_HOST, <NAME>_SERVICE_PORT…, <NAME>_PORT and <NAME>_PORT_…; a Service named
    plimsoll-web would otherwise set `web.port` to tcp://10.0.0.1:8080.
    """
    words = variable.split("_")
    for end in range(1, len(words)):
        service = "_".join(words[:end])
        if f"{service}_SERVICE_HOST" not in environ:
            continue
        rest = variable[len(service) + 1 :]
        if rest == "SERVICE_HOST" or rest.startswith(("SERVICE_PORT", "PORT_")):
            return True
        if rest == "PORT":
            return "://" in environ[variable]  # a value that a person set is not a link
    return False


DEFAULT = "default"
SERVICE_ACCOUNT_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_MOST_BYTES = 1 << 20  # a ConfigMap holds no more

# Pairs of keys that contradict each other: the one that must be longer, the shorter one, and why.
_LONGER_THAN = (
    (
        "operator.leaderElection.leaseDuration",
        "operator.leaderElection.renewDeadline",
        "a leader must stop before another may start",
    ),
    (
        "operator.leaderElection.renewDeadline",
        "operator.leaderElection.retryPeriod",
        "a leader must have time for more than one attempt",
    ),
    ("kubernetes.exitViewAge", "kubernetes.maxViewAge", "a process is unready before it gives up"),
    (
        "kubernetes.maxViewAge",
        "kubernetes.watchIdleTimeout",
        "a dead watch must be opened anew before its view counts as stale",
    ),
)


@dataclass(frozen=True)
class Flag:
    """A key that a command-line option sets, and the name of the option."""

    key: str
    text: str
    option: str


@dataclass(frozen=True)
class Loaded:
    config: Config
    origins: Mapping[str, str]  # by key


def load(
    file: Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    flags: Sequence[Flag] = (),
    service_account_namespace: Path | None = None,
) -> Loaded:
    """The effective configuration, or ConfigurationError with the problems of all sources.

    Without an environment the result is the same wherever it is computed.
    """
    environ = environ or {}
    defaults = {setting.key: SourcedValue(setting.default, DEFAULT) for setting in SETTINGS.values()}
    readings = [
        SourceValues(defaults),
        _surroundings(environ, service_account_namespace),
        _read_file(file) if file else SourceValues(),
        read_environment(environ),
        _read_flags(flags),
    ]
    written = {key: value for reading in readings for key, value in reading.values.items()}
    problems = [problem for reading in readings for problem in reading.problems]
    refused = {problem.key for problem in problems}
    for longer, shorter, why in _LONGER_THAN:
        if written[longer].value > written[shorter].value or refused & {longer, shorter}:
            continue
        # Report the problem at the key that a user set, not at a default.
        culprit, other, word = (
            (shorter, longer, "shorter") if written[longer].origin == DEFAULT else (longer, shorter, "longer")
        )
        message = (
            f"{_shown(written, culprit)} is not {word} than {other} ({_shown(written, other)}, {written[other].origin})"
        )
        problems.append(ConfigProblem(written[culprit].origin, culprit, f"{message}: {why}"))
    if problems:
        raise ConfigurationError(problems)
    config = build_config({key: value.value for key, value in written.items()})
    return Loaded(config, {key: value.origin for key, value in written.items()})


def _shown(written: Mapping[str, SourcedValue], key: str) -> str:
    return str(SETTINGS[key].form.plain(written[key].value))


def _surroundings(environ: Mapping[str, str], service_account_namespace: Path | None) -> SourceValues:
    """The namespace of the pod this process runs in. Every other source overrides it, because the user did not write it."""
    reading = SourceValues()
    namespace = SETTINGS["operator.namespace"]
    if text := environ.get("POD_NAMESPACE", "").strip():
        reading.take(namespace, text, "POD_NAMESPACE")
    elif service_account_namespace and (text := _text_of(service_account_namespace)):
        reading.take(namespace, text, str(service_account_namespace))
    return reading


def _text_of(file: Path) -> str:
    try:
        return file.read_text("utf-8").strip()
    except OSError:
        return ""  # not in a pod


def _read_file(file: Path) -> SourceValues:
    name = "standard input" if str(file) == "-" else str(file)
    reading = SourceValues()
    try:
        if str(file) == "-":
            data = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with file.open("rb") as stream:
                data = stream.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            reading.refuse(name, "", "larger than 1 MiB; is this the right file?")
            return reading
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        reading.refuse(f"{name}:{line}", "", f"not UTF-8 (byte {data[error.start]:#04x})")
        return reading
    except OSError as error:
        reading.refuse(name, "", f"cannot be read: {error.strerror}")
        return reading
    return read_yaml(text, name)


def _read_flags(flags: Sequence[Flag]) -> SourceValues:
    reading = SourceValues()
    for flag in flags:
        if setting := SETTINGS.get(flag.key):
            reading.take(setting, flag.text, flag.option)
        else:
            reading.refuse(
                flag.option, as_word(flag.key), f"unknown key (value {quoted(flag.text)}); {likely_meant(flag.key)}"
            )
    return reading
