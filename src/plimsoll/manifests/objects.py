"""Names, labels and YAML output that all manifests share."""

from __future__ import annotations

from typing import Any, TypeAlias

import yaml

Manifest: TypeAlias = dict[str, Any]

NAME = "plimsoll"
LABELS = {"app.kubernetes.io/name": NAME}


def scoped_name(home: str, name: str = NAME) -> str:
    """A name that is unique per installation, for objects outside the operator's namespace."""
    return f"{name}.{home}"


def new_manifest(api_version: str, kind: str, namespace: str, name: str = NAME, **parts: Any) -> Manifest:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), "labels": LABELS}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}


def as_yaml(value: Any) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=120)


class _Dumper(yaml.SafeDumper):
    """No aliases; multi-line strings as block scalars."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
