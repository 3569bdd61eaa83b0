"""The mark by which a server is recognized as ours, with its key: VPSie has no idempotency keys.

The mark is in the server's notes and in its tags; either is enough.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from plimsoll.providers.protocol import Machine, MachineRequest, MachineState
from plimsoll.providers.vpsie.replies import Vm, parse_vpsie_time

_LINE = "plimsoll: "  # prefix of our line in the notes
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


class MachineMark(Struct, frozen=True, omit_defaults=True):
    key: str
    group: str = ""
    cluster: str = ""
    offering: str = ""
    datacenter: str = ""


def mark_for(request: MachineRequest) -> MachineMark:
    return MachineMark(request.key, request.group, request.resource_identifier, request.offering, request.datacenter)


def server_body(request: MachineRequest) -> dict[str, Any]:
    """The body of `POST /vm`."""
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


def mark_of(vm: Vm) -> MachineMark | None:
    """None for a server that is not ours."""
    for line in reversed((vm.notes or "").splitlines()):
        if line.startswith(_LINE):
            try:
                return msgspec.json.decode(line.removeprefix(_LINE), type=MachineMark)
            except msgspec.DecodeError:
                break  # edited by a person; use the tags
    tags = vm.tag_names

    def tagged(name: str) -> str:
        prefix = f"{_TAG}-{name}-"
        return next((tag.removeprefix(prefix) for tag in tags if tag.startswith(prefix)), "")

    return MachineMark(tagged("key"), tagged("group"), tagged("cluster")) if tagged("key") else None


def server_machine(vm: Vm, mark: MachineMark) -> Machine:
    status = (vm.status or vm.state or "").strip().lower()
    hostname = (vm.hostname or vm.name or "").strip()
    return Machine(
        id="" if vm.id is None else str(vm.id),
        name=hostname,
        key=mark.key,
        offering=mark.offering or ("" if vm.boxsize_id is None else str(vm.boxsize_id)),
        datacenter=mark.datacenter or vm.datacenter or ("" if vm.datacenter_id is None else str(vm.datacenter_id)),
        group=mark.group,
        # An unknown status counts as not running yet, never as failed: a person may have stopped the server.
        state=_STATES.get(status, "provisioning"),
        node_name=hostname.lower(),
        addresses=tuple(address for address in (vm.default_ip, vm.default_ipv6, vm.private_ip) if address),
        created_at=parse_vpsie_time(vm.created_on),
        message="" if status == "running" else status,
        resource_identifier=mark.cluster,
    )
