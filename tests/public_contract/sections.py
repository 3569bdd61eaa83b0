"""The sections of the contract, as the operator is now."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import click
import yaml
from msgspec import structs

from plimsoll.cli import main
from tests.public_contract import commands, sources, texts
from tests.public_contract.json_fields import fields, fields_of_sample
from tests.public_contract.source_tree import UNKNOWN

Part: TypeAlias = dict[str, str] | list[str]
Parts: TypeAlias = dict[str, Part]

_KEY = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
_DOMAIN = r"[a-z0-9.-]+\.(io|com|sh|dev)"
_API_VERSION = re.compile(r"v\d+((alpha|beta)\d+)?")


class Section(NamedTuple):
    name: str
    about: str  # a comment in the file
    derive: Callable[[], Parts]


# ── strings on objects of the cluster ────────────────────────────────────────────────────────────────────────────────


def on_objects() -> Parts:
    prefixes = "|".join(sources.PREFIXES_OF_OTHERS)
    keys = [
        key for key in texts.matching(f"({_DOMAIN}|{prefixes})/{_KEY}") if not _API_VERSION.fullmatch(_name_in(key))
    ]
    ours = [key for key in keys if key.partition("/")[0] in sources.OUR_DOMAINS]
    return {
        "keys": ours,
        "keys_of_others_that_we_read": sorted(set(keys) - set(ours)),
        "values_of_keys": {key: ", ".join(sorted(values)) for key in ours if (values := _known(texts.at_key(key)))},
        "taints_that_we_write": sorted(texts.at_key("key", beside=("effect",))),
        "finalizers": sorted(texts.at_key("finalizers")),
        "condition_types": sorted(_conditions("type")),
        "condition_reasons": sorted(_conditions("reason")),
        "field_managers": sorted(texts.at_keyword("fieldManager")),
        "user_agents": sorted(texts.at_key("User-Agent")),
        "names_of_objects": texts.matching(r"(plimsoll|weka)-[a-z0-9]+(-[a-z0-9]+)*(-\*)?(\.\*)?"),
        "audit_annotations": texts.keys_at_keyword("audit_annotations"),
    }


def _name_in(key: str) -> str:
    return key.rpartition("/")[2]


def _known(found: Iterable[str]) -> list[str]:
    return sorted(text for text in found if UNKNOWN not in text)


def _conditions(field: str) -> set[str]:
    written = texts.at_key(field, beside=("type", "status", "reason", "lastTransitionTime"))
    return texts.codes(texts.values_of(sources.CONDITION, field) | written)


def installation() -> Parts:
    items = commands.manifests()
    labels = {f"{key}={value}" for item in items for key, value in item["metadata"].get("labels", {}).items()}
    config_maps = {
        f"{item['metadata']['name']}: {key}" for item in items if item["kind"] == "ConfigMap" for key in item["data"]
    }
    webhooks = [one for item in items for one in item.get("webhooks", ())]
    rules = [rule for item in items for rule in item.get("rules", ())]
    paths = {path for rule in rules for path in rule.get("nonResourceURLs", ())}
    paths |= {one["clientConfig"]["service"]["path"] for one in webhooks}
    return {
        "objects": sorted(f"{item['kind']} {item['metadata']['name']}" for item in items),
        "labels": sorted(labels),
        "config_map_keys": sorted(config_maps),
        "container_ports": sorted(port["name"] for port in _container()["ports"]),
        "container_variables": sorted(one["name"] for one in _container()["env"]),
        "webhooks": sorted(one["name"] for one in webhooks),
        "http_paths": sorted(paths | sources.tree().arguments("add_get", "path", 0)),
    }


def _container() -> Any:
    (deployment,) = (item for item in commands.manifests() if item["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return container


# ── kinds ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def kinds() -> Parts:
    found: Parts = {}
    for crd in commands.crds():
        spec = crd["spec"]
        (version,) = spec["versions"]
        names, kind = spec["names"], spec["names"]["kind"]
        found[kind] = {
            "apiVersion": f"{spec['group']}/{version['name']}",
            "names": f"{names['plural']}, {names['singular']}",
            **({"shortNames": ", ".join(names["shortNames"])} if "shortNames" in names else {}),
            "subresources": json.dumps(version["subresources"], sort_keys=True),
        }
        found[f"{kind} columns"] = {
            column["name"]: f"{column['jsonPath']} ({column['type']})" for column in version["additionalPrinterColumns"]
        }
        schema = version["schema"]["openAPIV3Schema"]["properties"]
        found[f"{kind} fields"] = {
            path: kind_of for part in ("spec", "status") for path, kind_of in _properties(schema[part], part).items()
        }
    return found


def _properties(schema: Mapping[str, Any], path: str) -> dict[str, str]:
    kind = schema.get("type") or ("integer or string" if schema.get("x-kubernetes-int-or-string") else "any")
    found = {path: f"{kind}{', ' + schema['format'] if 'format' in schema else ''}"}
    for name, one in schema.get("properties", {}).items():
        required = ", required" if name in schema.get("required", ()) else ""
        inner = _properties(one, f"{path}.{name}")
        found |= {**inner, f"{path}.{name}": inner[f"{path}.{name}"] + required}
    if "items" in schema:
        found |= _properties(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), Mapping):
        found |= _properties(schema["additionalProperties"], f"{path}{{}}")
    return found


# ── metrics ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def metrics() -> Parts:
    named: dict[str, str] = {}
    for collector in sources.registry()._collector_to_names:
        suffix = "_total" if collector._type == "counter" else ""
        named[collector._name + suffix] = _metric(collector._type, collector._labelnames)
    named |= {name: _metric(one.type.value, one.labels) for name, one in sources.catalogue().items()}
    groups = [
        group for item in commands.manifests() if item["kind"] == "PrometheusRule" for group in item["spec"]["groups"]
    ]
    return {
        "metrics": named,
        "alerts": sorted(rule["alert"] for group in groups for rule in group["rules"]),
    }


def _metric(kind: str, labels: Iterable[str]) -> str:
    return f"{kind}({', '.join(labels)})"


# ── codes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@cache
def _codes() -> dict[str, set[str]]:
    return {
        name: texts.codes(
            {text for some, exact, field in several for text in texts.values_of(some, field, exact=exact)}
        )
        for name, several in sources.CODES.items()
    }


@cache
def _events() -> set[str]:
    """Each problem is also told as an event, under its code."""
    told = {code for name in sources.EVENT_CODES for code in sources.tree().arguments(name, "code", 0)}
    return texts.codes(texts.values_of(sources.EVENT, "reason")) | _codes()["problems"] | told


def events() -> Parts:
    return {"reasons": sorted(_events())}


def codes() -> Parts:
    guards = commands.printed("explain", "deploy/web", "-f", "-", "-o", "json", stdin=commands.DRIFTED)["guards"]
    drives = texts.values_of(sources.DRIVE, "state", exact=True) | texts.values_of(sources.HOLDER, "state")
    found: Parts = {
        **{name: sorted(some) for name, some in _codes().items()},
        "scaling_reasons": sorted(
            _codes()["scaling_reasons"] | texts.codes(texts.at_key("reason", beside=("decision",)))
        ),
        "guards": sorted(guard["guard"] for guard in guards),
        "scheduling_rules": texts.members("NodeSelector", "PodAntiAffinity"),
        "invariants": texts.matching(r"[SL]\d{1,2}"),
        "actions": sorted(sources.action_kinds()),
        "results": texts.members("done", "would", "refused", "unknown"),
        "refusals_of_providers": texts.names_of_caught_errors(),
        "next_actions": texts.members("migrate-to-spot", "migrate-to-on-demand"),
        "placement_reasons": texts.members("minimum", "share", "ordinal"),
        "machine_phases": texts.members("Pending", "Provisioning", "Joining", "Deleting"),
        "deletion_order_placed_by": texts.members("no node", "not running"),
        "drive_states": sorted(drives),
        "timeline_results": sorted(
            text for text in texts.values_of(sources.DASHBOARD_DECISION, "result") if "*" not in text
        ),
        "migration_verdicts": texts.members("same", "owner gone"),
    }
    return {**found, "other_words": sorted(texts.words() - _accounted_for(found) - sources.NOT_OURS)}


def _accounted_for(found: Parts) -> set[str]:
    """Words that this section, another one, or the dashboard of Grafana has."""
    others = (*found.values(), *on_objects().values(), *metrics().values(), *events().values(), *kinds().values())
    (grafana,) = (json.loads(item["data"]["plimsoll.json"]) for item in commands.manifests() if _is_grafana(item))
    titles = {grafana["title"], *(panel["title"] for panel in grafana["panels"])}
    own = {crd["spec"]["names"]["kind"] for crd in commands.crds()}
    return {word for part in others for word in part} | titles | own


def _is_grafana(item: Mapping[str, Any]) -> bool:
    return bool(item["kind"] == "ConfigMap" and item["metadata"]["name"] == "plimsoll-grafana")


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def json_output() -> Parts:
    found: Parts = {f"explain {name}": fields(sources.struct(some)) for name, some in sources.EXPLAIN.items()}
    found["simulate"] = fields(sources.struct(sources.SIMULATE))
    found["demo"] = texts.keys_beside("chapters", "violations")
    found["demo chapters"] = fields(sources.struct(sources.DEMO_CHAPTER))
    found["demo figures"] = texts.keys_beside("mostEvictionsOfOnePod")
    invalid = commands.printed("validate", "-", "-o", "json", stdin=commands.INVALID, exit_code=1)
    found["validate"] = fields_of_sample(invalid)
    found["allocation show"] = fields(sources.struct(sources.ALLOCATION_SHOW))
    found["config show"] = sorted(commands.printed("config", "show", "-o", "json"))
    found["dashboard /api/v1/snapshot"] = fields(sources.struct(sources.PICTURE))
    for name, some in sources.PICTURE_SECTIONS.items():
        found[f"dashboard /api/v1/snapshot {name}{{}}"] = fields(sources.struct(some))
    found["audit line"] = fields(sources.struct(sources.AUDIT))
    return found


# ── configuration and commands ───────────────────────────────────────────────────────────────────────────────────────


def configuration() -> Parts:
    settings = sources.settings()
    return {
        "keys": fields(sources.configuration()),
        "defaults": {key: json.dumps(one.form.plain(one.default)) for key, one in settings.items()},
        "variables": {key: one.variable for key, one in settings.items()},
        "other_variables": texts.matching(r"_?PLIMSOLL_[A-Z_]*[A-Z]|POD_[A-Z]+|NO_COLOR"),
    }


def command_line() -> Parts:
    found: Parts = {}
    exits: dict[str, str] = {"run": ", ".join(f"{code.value} {code.name}" for code in sources.exit_codes())}
    for name, command in _commands(main, "plimsoll"):
        found[name] = dict(_option(parameter) for parameter in command.params)
        told = re.search(r"Exit codes?:?(.*?)(\n\n|$)", f"{command.help}\n\n{command.epilog}", re.DOTALL)
        if told is not None and not name.endswith(" run"):
            exits[name.removeprefix("plimsoll ")] = ", ".join(re.findall(r"\b(\d)(?=[ :])", told[1]))
    found["exit codes"] = exits
    found["kinds of explain"] = sources.kinds_of_explain()
    return found


def _commands(command: click.Command, name: str) -> Iterable[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        for inner in sorted(command.commands):
            yield from _commands(command.commands[inner], f"{name} {inner}")


def _option(parameter: click.Parameter) -> tuple[str, str]:
    kind = (
        "|".join(map(str, parameter.type.choices)) if isinstance(parameter.type, click.Choice) else parameter.type.name
    )
    if not isinstance(parameter, click.Option):
        return parameter.metavar or str(parameter.name).upper(), f"argument, {kind}"
    names = sorted([*parameter.opts, *parameter.secondary_opts], key=lambda name: (-len(name), name))
    return ", ".join(names), "flag" if parameter.is_flag else f"{kind}, repeatable" if parameter.multiple else kind


def entry_points() -> Parts:
    project = tomllib.loads((sources.ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return {
        "scripts": sorted(project["scripts"]),
        **{group: sorted(names) for group, names in project["entry-points"].items()},
    }


# ── files and state ──────────────────────────────────────────────────────────────────────────────────────────────────


def helm_values() -> Parts:
    values = yaml.safe_load((sources.ROOT / "charts" / "plimsoll" / "values.yaml").read_text("utf-8"))
    return {"values": dict(_leaves(values))}


def _leaves(values: Mapping[str, Any], path: str = "") -> Iterable[tuple[str, str]]:
    for name, value in values.items():
        inner = f"{path}.{name}" if path else name
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, inner)
        else:
            yield inner, json.dumps(value)


def files() -> Parts:
    found: Parts = {
        "snapshot": {
            "fields": ", ".join(texts.keys_beside("takenAt", "items")),
            "apiVersion": ", ".join(sorted(texts.at_key("apiVersion", beside=("takenAt",)))),
            "kind": ", ".join(sorted(texts.at_key("kind", beside=("takenAt",)))),
        },
        "scenario": texts.members("changes", "curves"),
        "scenario curves[]": texts.members("workload", "low", "high"),
        "scenario events": texts.members("nodes", "reclaim"),
        "lines of nodes": texts.members("zone", "class", "cpu", "prefix"),
    }
    watched = {one.kind: one for one in sources.kinds_in_a_snapshot()}
    parts_of_pods = {field.type: f"as {field.encode_name} of Pod" for field in structs.fields(watched["Pod"].type)}
    for kind, one in watched.items():
        known = parts_of_pods if kind != "Pod" else {}
        found[f"snapshot {kind} ({one.api_version})"] = fields(one.type, known=known)
    return found


def state() -> Parts:
    found: Parts = {
        where: fields(sources.struct(some, exact=where in sources.EXACTLY), required=True)
        for where, some in sources.STORED.items()
    }
    found["Secret plimsoll-webhook-tls"] = texts.keys_beside("tls.crt", "next-tls.crt")
    return found


SECTIONS = (
    Section(
        "on_objects", "Strings on objects of the cluster. `*` stands for what the source does not say.", on_objects
    ),
    Section("installation", "What `plimsoll manifests` installs, in the namespace plimsoll-system.", installation),
    Section("kinds", "Custom resources, as `plimsoll manifests crds` prints them.", kinds),
    Section("metrics", "Metrics with type and labels, and alerts.", metrics),
    Section("events", "Reasons of events.", events),
    Section(
        "codes", "Codes in decisions, `explain -o json`, `plimsoll_blocked`, audit lines and on the dashboard.", codes
    ),
    Section("json_output", "Fields of JSON that commands, the dashboard and the audit log write.", json_output),
    Section(
        "configuration",
        "Keys of the configuration file, their defaults as JSON, and environment variables.",
        configuration,
    ),
    Section("command_line", "Commands with their options and arguments, and exit codes.", command_line),
    Section("entry_points", "Entry points that plug-ins use, and scripts.", entry_points),
    Section("helm_values", "Values of the chart, with their defaults as JSON.", helm_values),
    Section("files", "Formats of files: snapshots and scenarios.", files),
    Section("state", "Formats that outlive a process: what one release writes, the next one reads.", state),
)
