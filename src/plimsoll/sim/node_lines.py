"""Nodes from one line, such as `3 zone=a class=spot cpu=8 memory=32Gi`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from plimsoll.sim.api.documents import Json

_LABELS = {
    "zone": "topology.kubernetes.io/zone",
    "region": "topology.kubernetes.io/region",
    "class": "karpenter.sh/capacity-type",
    "type": "node.kubernetes.io/instance-type",
}
_CAPACITY = {"cpu": "4", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi"}
_MOST_NODES = 50_000
_PATTERNS = {
    **dict.fromkeys(("zone", "region", "type"), r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"),
    "class": "spot|on-demand|reserved",
    **dict.fromkeys(_CAPACITY, r"\d+(\.\d+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?"),
    "prefix": r"[a-z0-9]([-a-z0-9]*[a-z0-9])?",
}


class NodeLineError(ValueError):
    """A line that describes no nodes; the message names the faulty word and what is expected."""


@dataclass(frozen=True)
class NodeLine:
    """What one line asks for."""

    count: int = 1
    values: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        parts = [self.values[word] for word in ("class", "zone") if word in self.values]
        return self.values.get("prefix") or re.sub(r"[^a-z0-9-]", "-", "-".join(parts).lower()) or "node"

    def manifest(self, name: str, number: int) -> Json:
        """The Node as its kubelet registers it."""
        capacity = {resource: self.values.get(resource, amount) for resource, amount in _CAPACITY.items()}
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        labels |= {label: self.values[word] for word, label in _LABELS.items() if word in self.values}
        address = f"10.{(number >> 16) % 64}.{(number >> 8) % 256}.{number % 256}"
        information = {
            "operatingSystem": "linux", "architecture": "amd64", "kubeletVersion": "plimsoll", "osImage": "none",
            "kernelVersion": "none", "containerRuntimeVersion": "none://", "kubeProxyVersion": "",
            "machineID": "", "systemUUID": "", "bootID": "",
        }  # fmt: skip
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels | self.labels},
            "spec": {},
            "status": {
                "capacity": capacity,
                "allocatable": capacity,
                "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
                "nodeInfo": information,
            },
        }


def parse_node_line(line: str) -> NodeLine:
    """Read `[COUNT] [WORD=VALUE ...]`; every part may be left out but not all of them."""
    words = line.split()
    if not words:
        raise NodeLineError("a line of nodes is empty; expected such as '3 zone=a class=spot cpu=8 memory=32Gi'")
    count = 1
    if "=" not in words[0]:
        text = words.pop(0)
        if not text.isdecimal() or not 1 <= int(text) <= _MOST_NODES:
            raise NodeLineError(
                f"{text!r} in nodes {line!r}: expected how many nodes, 1 to {_MOST_NODES}, or WORD=VALUE"
            )
        count = int(text)
    values: dict[str, str] = {}
    labels: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if name.startswith("label:") and equals:
            labels[name.removeprefix("label:")] = value
        elif not equals or name not in _PATTERNS:
            known = ", ".join([*(f"{known}=" for known in _PATTERNS), "label:KEY="])
            raise NodeLineError(f"{word!r} in nodes {line!r} is not known; expected one of {known}")
        elif not re.fullmatch(_PATTERNS[name], value):
            raise NodeLineError(f"{word!r} in nodes {line!r}: {value!r} is no value for {name}=")
        else:
            values[name] = value
    return NodeLine(count, values, labels)
