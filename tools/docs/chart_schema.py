"""What values the chart takes. The operator's own settings come from its types: a wrong key fails before anything is applied."""

from __future__ import annotations

import json
from typing import Any

from plimsoll.config.forms import Choice, Form, ListOf, Number, Span, Switch
from plimsoll.config.settings import TREE, Setting, SettingGroup

_TEXT: dict[str, Any] = {"type": "string"}
_SWITCH: dict[str, Any] = {"type": "boolean"}
_ANYTHING: dict[str, Any] = {"type": "object"}


def schema_file() -> str:
    schema = {
        "$schema": "https://json-schema.org/draft-07/schema#",
        "$comment": "Generated from the code by `make docs`: do not edit.",
        **_section(
            {
                "config": _group(TREE),
                "image": _section(
                    {
                        "repository": {"type": "string", "minLength": 1},
                        "tag": _TEXT,
                        "digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
                        "pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
                    }
                ),
                "imagePullSecrets": {"type": "array", "items": _section({"name": _TEXT})},
                "replicas": {"type": "integer", "minimum": 1},
                "resources": _ANYTHING,
                "nodeSelector": _ANYTHING,
                "tolerations": {"type": "array"},
                "affinity": _ANYTHING,
                "podAnnotations": _ANYTHING,
                "crds": _section({"install": _SWITCH, "keep": _SWITCH}),
                "podDisruptionBudget": _section({"enabled": _SWITCH}),
                "networkPolicy": _section({"enabled": _SWITCH}),
                "priorityClass": _section({"create": _SWITCH, "name": {"type": "string"}}),
                "serviceMonitor": _section({"enabled": _SWITCH}),
                "prometheusRule": _section({"enabled": _SWITCH}),
                "grafanaDashboard": _section({"enabled": _SWITCH}),
                "global": _ANYTHING,  # Helm hands this to every chart
            }
        ),
    }
    return json.dumps(schema, indent=2) + "\n"


def _section(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _group(group: SettingGroup) -> dict[str, Any]:
    return _section(
        {
            name: _group(member) if isinstance(member, SettingGroup) else _setting(member)
            for name, member in group.members.items()
        }
    )


def _setting(setting: Setting) -> dict[str, Any]:
    return {"description": setting.description, **_form(setting.form)}


def _form(form: Form) -> dict[str, Any]:
    match form:
        case Switch():
            return _SWITCH
        case Number(lowest, highest):
            limits = {"minimum": lowest, "maximum": highest}
            return {"type": "integer", **{name: limit for name, limit in limits.items() if limit is not None}}
        case Choice(words):
            return {"enum": list(words)}
        case Span():
            return {"type": ["string", "integer"]}
        case ListOf(item):
            return {"type": "array", "uniqueItems": True, "items": _form(item)}
        case _:
            return {"type": ["string", "number"]}
