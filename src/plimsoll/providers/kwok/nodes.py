"""The objects of a machine of the provider `kwok`: a ConfigMap while it is on order, then a Node.

Both contain everything that is known about the machine, so that any process can continue.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from plimsoll.config.providers import KwokOffering
from plimsoll.kube.codec import builtins
from plimsoll.kube.types.core import ConfigMap, Node
from plimsoll.kube.types.meta import Labels
from plimsoll.kube.types.quantity import parse_quantity
from plimsoll.providers.errors import ProviderError
from plimsoll.providers.protocol import Machine, MachineRequest, MachineState, Offering

# Labels of the provider's nodes and orders, and the selector that lists them.
PROVIDER_LABEL = "plimsoll.dev/provider"
KEY_LABEL = "plimsoll.dev/machine-key"
SELECTOR = f"{PROVIDER_LABEL}=kwok"

_OFFERING = "plimsoll.dev/machine-offering"
_DATACENTER = "plimsoll.dev/machine-datacenter"
_GROUP = "plimsoll.dev/machine-group"
_CLUSTER = "plimsoll.dev/machine-resource-identifier"
_CREATED_AT = "plimsoll.dev/machine-created-at"
DELETING_SINCE = "plimsoll.dev/machine-deleting-since"

_STORAGE = "100Gi"  # KWOK runs no containers, so only requests use it up
_SYSTEM = {"operatingSystem": "linux", "architecture": "amd64"}


class KwokOrder(Struct, frozen=True):
    """What a ConfigMap holds while a node is being made."""

    request: MachineRequest
    ordered_at: datetime
    failure: str = ""  # why it will never be made


def order_name(key: str) -> str:
    return f"plimsoll-kwok-{key}"


def order_body(order: KwokOrder) -> dict[str, Any]:
    labels = {PROVIDER_LABEL: "kwok", KEY_LABEL: order.request.key}
    return {"metadata": {"name": order_name(order.request.key), "labels": labels}, "data": order_data(order)}


def order_data(order: KwokOrder) -> dict[str, str]:
    return {"order": msgspec.json.encode(order).decode()}


def read_order(record: ConfigMap) -> KwokOrder:
    try:
        return msgspec.json.decode(record.data.get("order", ""), type=KwokOrder)
    except msgspec.DecodeError as error:
        raise ProviderError(
            f"the order in ConfigMap {record.namespace}/{record.name} cannot be read: {error}"
        ) from error


def ordered_machine(order: KwokOrder) -> Machine:
    request = order.request
    state: MachineState = "failed" if order.failure else "provisioning"
    return Machine(
        request.key, request.name, request.key, request.offering, request.datacenter, request.group, state,
        created_at=order.ordered_at, message=order.failure, resource_identifier=request.resource_identifier,
    )  # fmt: skip


def offering_labels(offering: KwokOffering) -> Labels:
    return {
        "kubernetes.io/os": _SYSTEM["operatingSystem"],
        "kubernetes.io/arch": _SYSTEM["architecture"],
        "node.kubernetes.io/instance-type": offering.id,
        **offering.labels,
    }


def to_offering(offering: KwokOffering) -> Offering:
    capacity = {name: parse_quantity(text) for name, text in _capacity(offering).items()}
    return Offering(offering.id, offering.id, capacity, offering.price, offering_labels(offering))


def machine_metadata(request: MachineRequest) -> tuple[dict[str, str], dict[str, str]]:
    """The labels and annotations that identify a Node as this machine."""
    labels = {PROVIDER_LABEL: "kwok", KEY_LABEL: request.key}
    annotations = {
        _OFFERING: request.offering,
        _DATACENTER: request.datacenter,
        _GROUP: request.group,
        _CLUSTER: request.resource_identifier,
    }
    return labels, annotations


def node_body(order: KwokOrder, offering: KwokOffering) -> dict[str, Any]:
    request = order.request
    marks, notes = machine_metadata(request)
    labels = {**offering_labels(offering), **request.labels, "kubernetes.io/hostname": request.name, **marks}
    # The first annotation makes KWOK manage the node.
    annotations = {"kwok.x-k8s.io/node": "fake", **notes, _CREATED_AT: order.ordered_at.isoformat()}
    # With "v", as a kubelet reports it: KWOK's stock stages parse "1.36" as a number and the node never becomes ready.
    version = f"v{request.kubernetes_version.removeprefix('v')}" if request.kubernetes_version else "kwok"
    return {
        "metadata": {"name": request.name, "labels": labels, "annotations": annotations},
        "spec": {"providerID": f"kwok://{request.key}", "taints": [builtins(taint) for taint in request.taints]},
        "status": {
            "capacity": _capacity(offering),
            "allocatable": _capacity(offering),
            "addresses": [{"type": "Hostname", "address": request.name}],
            "nodeInfo": {
                **_SYSTEM,
                **dict.fromkeys(
                    ("machineID", "systemUUID", "bootID", "osImage", "kernelVersion", "kubeProxyVersion"), ""
                ),
                "containerRuntimeVersion": "kwok://",
                "kubeletVersion": version,
            },
        },
    }


def node_machine(node: Node) -> Machine:
    notes = node.annotations
    deleting = node.terminating or DELETING_SINCE in notes
    return Machine(
        id=node.labels.get(KEY_LABEL, ""),
        name=node.name,
        key=node.labels.get(KEY_LABEL, ""),
        offering=notes.get(_OFFERING, ""),
        datacenter=notes.get(_DATACENTER, ""),
        group=notes.get(_GROUP, ""),
        state="deleting" if deleting else "running",
        node_name=node.name,
        provider_id=node.spec.provider_id,
        created_at=parse_order_time(notes.get(_CREATED_AT, "")) or node.metadata.creation_timestamp,
        resource_identifier=notes.get(_CLUSTER, ""),
    )


def parse_order_time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _capacity(offering: KwokOffering) -> Mapping[str, str]:
    return {
        "cpu": offering.cpu,
        "memory": offering.memory,
        "pods": str(offering.pods),
        "ephemeral-storage": _STORAGE,
    }
