"""`plimsoll config convert`: turn the configuration of a system that Plimsoll succeeds into ours."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import yaml

from plimsoll.cli.config_options import as_written, controllers_for

# Old key → our key. A value is converted by `_VALUES` if it needs that.
_SAME = "="
_KEYS: Mapping[str, str] = {
    "operator.readOnlyMode": _SAME,
    "operator.watchNamespaces": _SAME,
    "operator.leaderElection.enabled": _SAME,
    "operator.leaderElection.leaseDuration": _SAME,
    "operator.disruptionWindow.schedule": _SAME,
    "operator.disruptionWindow.duration": _SAME,
    "controllers.reconcileInterval": _SAME,
    "controllers.maxConcurrentReconciles": _SAME,
    "controllers.watchNamespaces": "operator.watchNamespaces",
    "controllers.rateLimit.qps": "kubernetes.qps",
    "controllers.rateLimit.burst": "kubernetes.burst",
    "controllers.workloadTiming.cooldownPeriod": _SAME,
    "controllers.workloadTiming.disruptionRetryInterval": _SAME,
    "controllers.nodeClassifier.spotLabels": "placement.spotLabels",
    "webhook.enabled": "webhook.mode",
    "webhook.port": _SAME,
    "observability.logging.level": "logging.level",
    "observability.logging.format": "logging.format",
    "observability.metrics.bindAddress": "web.port",
}
# Old key → why it has no counterpart.
_DROPPED: Mapping[str, str] = {
    "operator.namespace": "choose the namespace when you install Plimsoll",
    "operator.leaderElection.id": "Plimsoll has a lease of its own: operator.leaderElection.leaseName",
    "operator.leaderElection.namespace": "the lease is in operator.namespace",
    "controllers.workloadTiming.disruptionWindowPollInterval": "Plimsoll computes when a window opens and does not poll",
    "controllers.nodeClassifier.onDemandLabels": "a node without a spot label is on-demand",
    "webhook.certDir": "Plimsoll issues and renews its certificate; webhook.certificateFile and keyFile use another one",
    "webhook.certName": "see webhook.certificateFile",
    "webhook.keyName": "see webhook.keyFile",
    "observability.logging.output": "logs go to standard error",
    "observability.logging.addCaller": "not available",
    "observability.logging.development": "set logging.format to console",
    "observability.metrics.enabled": "metrics are always served on web.port",
    "observability.metrics.path": "metrics are at /metrics",
    "observability.health.enabled": "health is always served on web.port",
    "observability.health.bindAddress": "health is served on web.port, together with metrics",
    "observability.health.path": "health is at /healthz and /readyz",
}
_LISTS = frozenset({"controllers.nodeClassifier.spotLabels", "controllers.nodeClassifier.onDemandLabels"})


@click.group()
def convert() -> None:
    """Convert the configuration of another system."""


@convert.command()
@click.argument("file", metavar="FILE", type=click.File(encoding="utf-8"))
def spotalis(file: Any) -> None:
    """Convert a Spotalis configuration and print ours. FILE may also be its ConfigMap; - is standard input.

    Every key without a counterpart is listed on standard error.

    \b
    Examples:
      plimsoll config convert spotalis spotalis.yaml > plimsoll.yaml
      kubectl -n spotalis-system get configmap spotalis-config -o yaml | plimsoll config convert spotalis -
    """
    try:
        converted, notes = from_spotalis(_settings(yaml.safe_load(file)))
    except (yaml.YAMLError, ValueError) as error:
        raise click.ClickException(f"{file.name}: {error}") from None
    text = yaml.safe_dump(converted, sort_keys=False)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "plimsoll.yaml"
        path.write_text(text, encoding="utf-8")
        # An impossible value is an error here, not when the operator starts.
        controllers_for(as_written(path).config)
    click.echo(text, nl=False)
    for note in notes:
        click.echo(note, err=True)


def from_spotalis(settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Our configuration as plain values, and a note for each key that was not converted. Raises ValueError."""
    found: dict[str, Any] = {"controllers": {"enabled": ["placement"]}}
    notes = []
    for key, value in _flat(settings, ""):
        if key in _KEYS:
            ours = key if _KEYS[key] is _SAME else _KEYS[key]
            for name, converted in _VALUES.get(key, _plain)(ours, value):
                if converted is None:
                    notes.append(f"{key}: {name}")
                else:
                    _put(found, name, converted)
        else:
            notes.append(f"{key}: {_DROPPED.get(key, 'unknown key')}; not converted")
    return found, notes


def _settings(document: Any) -> Mapping[str, Any]:
    """The settings of a file, or of the one file in a ConfigMap."""
    if isinstance(document, Mapping) and document.get("kind") == "ConfigMap":
        files = document.get("data") or {}
        if len(files) != 1:
            raise ValueError(f"the ConfigMap has {len(files)} files; expected one")
        document = yaml.safe_load(next(iter(files.values())))
    if not isinstance(document, Mapping):
        raise ValueError("not a Spotalis configuration: expected a mapping")  # noqa: TRY004 - of the file, not of a type
    return document


def _flat(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value and path not in _LISTS:
        for name, inner in value.items():
            yield from _flat(inner, f"{path}.{name}" if path else str(name))
    elif path and value is not None and value not in ("", {}, []):
        yield path, value


def _put(tree: dict[str, Any], key: str, value: Any) -> None:
    *sections, name = key.split(".")
    for section in sections:
        tree = tree.setdefault(section, {})
    tree[name] = value


# Converters yield (our key, value), or (a note, None) for what cannot be converted.
Converted = Iterator[tuple[str, Any]]


def _plain(ours: str, value: Any) -> Converted:
    yield ours, value


def _whole(ours: str, value: Any) -> Converted:
    yield ours, max(1, int(float(value)))


def _mode(ours: str, value: Any) -> Converted:
    yield ours, "service" if value else "off"


def _level(ours: str, value: Any) -> Converted:
    yield ours, "warning" if value == "warn" else value


def _address(ours: str, value: Any) -> Converted:
    host, _, port = str(value).rpartition(":")
    if not port.isdecimal():
        raise ValueError(f'observability.metrics.bindAddress is "{value}"; expected HOST:PORT')
    yield "web.host", host.strip("[]") or "*"
    yield ours, int(port)


def _selectors(ours: str, value: Any) -> Converted:
    """Our spot labels are single labels: a selector of one label, or of one key with several values."""
    labels: list[str] = []
    for selector in value if isinstance(value, list) else [value]:
        pairs = list((selector.get("matchLabels") or {}).items())
        expressions = selector.get("matchExpressions") or []
        if len(pairs) == 1 and not expressions:
            labels.append(f"{pairs[0][0]}={pairs[0][1]}")
        elif not pairs and len(expressions) == 1 and expressions[0].get("operator") == "In":
            labels += [f"{expressions[0]['key']}={one}" for one in expressions[0].get("values") or ()]
        else:
            yield f"a selector of several labels has no counterpart ({selector}); not converted", None
    if labels:
        yield ours, labels


_VALUES: Mapping[str, Callable[[str, Any], Converted]] = {
    "controllers.rateLimit.qps": _whole,
    "controllers.rateLimit.burst": _whole,
    "controllers.nodeClassifier.spotLabels": _selectors,
    "webhook.enabled": _mode,
    "observability.logging.level": _level,
    "observability.metrics.bindAddress": _address,
}
