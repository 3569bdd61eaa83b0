"""Plain objects of an installation, as every part of it names and labels them."""

from __future__ import annotations

from typing import Any, TypeAlias

import yaml

Manifest: TypeAlias = dict[str, Any]

NAME = "plimsoll"
LABELS = {"app.kubernetes.io/name": NAME}


def outside(home: str, name: str = NAME) -> str:
    """The name of what lies outside the operator's own namespace, where another installation may have the like of it."""
    return f"{name}.{home}"


def described(api_version: str, kind: str, namespace: str, name: str = NAME, **parts: Any) -> Manifest:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), "labels": LABELS}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}


def as_yaml(value: Any) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=120)


class _Dumper(yaml.SafeDumper):
    """Without aliases, which nobody reads easily, and with lines of text as lines."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
