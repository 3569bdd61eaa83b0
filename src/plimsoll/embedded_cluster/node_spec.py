"""Parses node lines such as `3 zone=a class=spot cpu=8 memory=32Gi`, for the embedded cluster and the tests' control plane."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

_MOST_NODES = 50_000
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_CLASSES = ("spot", "on-demand", "reserved")
_QUANTITY = r"\d+(\.\d+)?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?"
_DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_VALUE = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"

# word → (what a valid value looks like, the same for people)
_WORDS: dict[str, tuple[str, str]] = {
    "zone": (_LABEL_VALUE, "a zone such as a or eu-1a"),
    "region": (_LABEL_VALUE, "a region such as eu-1"),
    "class": ("|".join(_CLASSES), f"one of {', '.join(_CLASSES)}"),
    "type": (_LABEL_VALUE, "an instance type such as m5.large"),
    "arch": (_LABEL_VALUE, "a processor such as amd64"),
    "os": (_LABEL_VALUE, "an operating system such as linux"),
    "cpu": (_QUANTITY, "a quantity such as 8 or 7500m"),
    "memory": (_QUANTITY, "a quantity such as 32Gi"),
    "storage": (_QUANTITY, "a quantity such as 100Gi"),
    "pods": (r"\d+", "a number such as 110"),
    "prefix": (_DNS_LABEL, "the beginning of the nodes' names, such as n"),
}
_PREFIXED_WORDS = {
    "label:": (rf"[^=\s]+=({_LABEL_VALUE})?", "label:KEY=VALUE"),
    "annotation:": (r"[^=\s]+=.*", "annotation:KEY=VALUE"),
    "resource:": (rf"[^=\s]+={_QUANTITY}", "resource:NAME=QUANTITY"),
    "taint:": (rf"[^=:\s]+(=({_LABEL_VALUE})?)?:({'|'.join(_EFFECTS)})", "taint:KEY[=VALUE]:EFFECT"),
}


class NodeLineError(ValueError):
    """An invalid node line; the message names the wrong word and what is expected."""


@dataclass(frozen=True)
class NodeLine:
    """A parsed node line."""

    count: int = 1
    values: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    resources: dict[str, str] = field(default_factory=dict)
    taints: tuple[dict[str, str], ...] = ()

    @property
    def prefix(self) -> str:
        """Prefix of the node names: as given, else class and zone, as in `spot-a`."""
        parts = [self.values[word] for word in ("class", "zone") if word in self.values]
        return self.values.get("prefix") or re.sub(r"[^a-z0-9-]", "-", "-".join(parts).lower()) or "node"

    def manifest(self, name: str, address: str, *, kubelet: str) -> dict[str, Any]:
        """The Node as its kubelet registers it; kubelet: the name of the kubelet's implementation."""
        cpu, memory = self.values.get("cpu", "4"), self.values.get("memory", "16Gi")
        capacity = {
            "cpu": cpu,
            "memory": memory,
            "pods": self.values.get("pods", "110"),
            "ephemeral-storage": self.values.get("storage", "100Gi"),
            **self.resources,
        }
        system = {"operatingSystem": self.values.get("os", "linux"), "architecture": self.values.get("arch", "amd64")}
        labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": system["operatingSystem"],
            "kubernetes.io/arch": system["architecture"],
            "node.kubernetes.io/instance-type": self.values.get("type", f"{kubelet}.{cpu}x{memory}"),
        }
        optional = {
            "zone": "topology.kubernetes.io/zone",
            "region": "topology.kubernetes.io/region",
            "class": "karpenter.sh/capacity-type",
        }
        labels |= {key: self.values[word] for word, key in optional.items() if word in self.values}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": labels | self.labels,
                **({"annotations": dict(self.annotations)} if self.annotations else {}),
            },
            "spec": {"taints": list(self.taints)} if self.taints else {},
            "status": {
                "capacity": capacity,
                "allocatable": capacity,
                "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
                "nodeInfo": {
                    **system,
                    **dict.fromkeys(("machineID", "systemUUID", "bootID", "osImage", "kernelVersion"), ""),
                    "containerRuntimeVersion": f"{kubelet}://",
                    "kubeletVersion": kubelet,
                    "kubeProxyVersion": "",
                },
            },
        }


def parse_node_line(line: str) -> NodeLine:
    """Parse `[COUNT] [WORD=VALUE ...]`; every part is optional, but not all of them."""
    words = line.split()
    if not words:
        raise NodeLineError("a line of nodes is empty: expected such as '3 zone=a class=spot cpu=8 memory=32Gi'")
    count = 1
    if "=" not in words[0] and ":" not in words[0]:
        count = _count(words.pop(0), line)
    values: dict[str, str] = {}
    prefixed: dict[str, list[str]] = {prefix: [] for prefix in _PREFIXED_WORDS}
    for word in words:
        prefix = next((prefix for prefix in _PREFIXED_WORDS if word.startswith(prefix)), None)
        if prefix is not None:
            pattern, example = _PREFIXED_WORDS[prefix]
            _require(pattern, word.removeprefix(prefix), f"{word!r} in nodes {line!r}: expected {example}")
            prefixed[prefix].append(word.removeprefix(prefix))
            continue
        name, equals, value = word.partition("=")
        if not equals or name not in _WORDS:
            known = ", ".join([*(f"{known}=" for known in _WORDS), *_PREFIXED_WORDS])
            raise NodeLineError(f"{word!r} in nodes {line!r} is not known: expected one of {known}")
        if name in values:
            raise NodeLineError(f"{word!r} in nodes {line!r}: {name}= is already given as {values[name]!r}")
        pattern, meaning = _WORDS[name]
        _require(pattern, value, f"{word!r} in nodes {line!r}: {name}= expects {meaning}")
        values[name] = value
    return NodeLine(
        count=count,
        values=values,
        labels=_pairs(prefixed["label:"]),
        annotations=_pairs(prefixed["annotation:"]),
        resources=_pairs(prefixed["resource:"]),
        taints=tuple(_taint(text) for text in prefixed["taint:"]),
    )


def _count(word: str, line: str) -> int:
    if not word.isdecimal() or not 1 <= int(word) <= _MOST_NODES:
        raise NodeLineError(f"{word!r} in nodes {line!r}: expected how many nodes, 1 to {_MOST_NODES}, or WORD=VALUE")
    return int(word)


def _require(pattern: str, value: str, complaint: str) -> None:
    if re.fullmatch(pattern, value) is None:
        raise NodeLineError(complaint)


def _pairs(texts: list[str]) -> dict[str, str]:
    return {key: value for key, _, value in (text.partition("=") for text in texts)}


def _taint(text: str) -> dict[str, str]:
    subject, _, effect = text.rpartition(":")
    key, equals, value = subject.partition("=")
    return {"key": key, "effect": effect, **({"value": value} if equals else {})}
