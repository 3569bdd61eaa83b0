"""Which machines are ours, and under which key: VPSie has no idempotency key, so each machine carries its own.

It stands in the machine's notes, where lists show it, and in tags, where people see it. Either is enough to know it again.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from plimsoll.providers.protocol import Machine, MachineRequest, MachineState
from plimsoll.providers.vpsie.replies import Vm, time_of

_LINE = "plimsoll: "  # begins the line of the notes that is ours
_TAG = "plimsoll"

_STATES: dict[str, MachineState] = {
    "running": "running",
    "active": "running",
    "failed": "failed",
    "error": "failed",
    "deleting": "deleting",
    "deleted": "deleting",
    "terminating": "deleting",
    "terminated": "deleting",
}


class Mark(Struct, frozen=True, omit_defaults=True):
    key: str
    group: str = ""
    cluster: str = ""
    offering: str = ""
    datacenter: str = ""


def mark_for(request: MachineRequest) -> Mark:
    return Mark(request.key, request.group, request.resource_identifier, request.offering, request.datacenter)


def order_body(request: MachineRequest) -> dict[str, Any]:
    """What `POST /vm` takes."""
    mark = mark_for(request)
    ours = [_TAG, f"{_TAG}-key-{mark.key}", f"{_TAG}-group-{mark.group}", f"{_TAG}-cluster-{mark.cluster}"]
    line = _LINE + msgspec.json.encode(mark).decode()
    body = {
        "name": request.name,
        "hostname": request.name,
        "offering_id": request.offering,
        "datacenter_id": request.datacenter,
        "os_image_id": request.image,
        "resourceIdentifier": request.resource_identifier,
        "projectId": request.project,
        "ssh_key_ids": list(request.ssh_keys),
        "notes": f"{request.notes}\n{line}" if request.notes else line,
        "tags": [*request.tags, *(tag for tag in ours if not tag.endswith("-"))],
    }
    return {name: value for name, value in body.items() if value}


def mark_of(vm: Vm) -> Mark | None:
    """None for a machine that is not ours."""
    for line in reversed((vm.notes or "").splitlines()):
        if line.startswith(_LINE):
            try:
                return msgspec.json.decode(line.removeprefix(_LINE), type=Mark)
            except msgspec.DecodeError:
                break  # someone wrote there; the tags may still know
    tags = vm.tag_names

    def tagged(name: str) -> str:
        prefix = f"{_TAG}-{name}-"
        return next((tag.removeprefix(prefix) for tag in tags if tag.startswith(prefix)), "")

    return Mark(tagged("key"), tagged("group"), tagged("cluster")) if tagged("key") else None


def machine_of(vm: Vm, mark: Mark) -> Machine:
    status = (vm.status or vm.state or "").strip().lower()
    hostname = (vm.hostname or vm.name or "").strip()
    return Machine(
        id="" if vm.id is None else str(vm.id),
        name=hostname,
        key=mark.key,
        offering=mark.offering or ("" if vm.boxsize_id is None else str(vm.boxsize_id)),
        datacenter=mark.datacenter or vm.datacenter or ("" if vm.datacenter_id is None else str(vm.datacenter_id)),
        group=mark.group,
        # What we do not know is not yet running, and surely not failed: a machine that a person stopped is not ours to judge.
        state=_STATES.get(status, "provisioning"),
        node_name=hostname.lower(),
        addresses=tuple(address for address in (vm.default_ip, vm.default_ipv6, vm.private_ip) if address),
        created_at=time_of(vm.created_on),
        message="" if status == "running" else status,
        resource_identifier=mark.cluster,
    )
