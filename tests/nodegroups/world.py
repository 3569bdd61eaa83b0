"""A cluster and a cloud in memory and in virtual time, in which decisions are carried out and every moment is judged.

Everyone else is here as well: machines join, controllers make pods, the scheduler binds what fits.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from plimsoll.controllers.nodegroups.controller import CLUSTER, NodeGroupController
from plimsoll.controllers.nodegroups.provider_inventory import ProviderInventories
from plimsoll.controllers.nodegroups.settings import NodeGroupSettings
from plimsoll.controllers.nodegroups.types import NODE_GROUPS, VPSIE_NODES, NodeGroup, VPSieNode
from plimsoll.kube.codec import convert
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.resources import (
    NODES,
    PODS,
    REPLICASETS,
    Key,
)
from plimsoll.providers.errors import AmbiguousOutcome, OfferingUnavailable, ProviderError, QuotaExceeded
from plimsoll.providers.protocol import Machine
from plimsoll.runtime.decision import (
    Action,
    Create,
    CreateMachine,
    Decision,
    Delete,
    DeleteMachine,
    Evict,
    Patch,
    Transaction,
)
from plimsoll.runtime.transaction import (
    End,
    Found,
    Get,
    ListAll,
    Listed,
    Moment,
    TransactionStarted,
    Write,
    WriteResult,
    WritesDone,
)
from plimsoll.scheduling.pack import pack
from plimsoll.scheduling.snapshot import Snapshot
from tests.nodegroups.api_server import ApiServer, Broken, Json, timestamp
from tests.nodegroups.cloud import Cloud
from tests.nodegroups.judge import judge_groups, judge_machine_removal, judge_node_removal

START = datetime(2026, 1, 1, tzinfo=UTC)
RETRY = timedelta(seconds=1)


class World:
    def __init__(self, settings: NodeGroupSettings | None = None, cloud: Cloud | None = None) -> None:
        self.now = START
        self.settings = settings or NodeGroupSettings(unschedulable_pod_grace=timedelta(0))
        self.cloud = cloud or Cloud()
        self.api = ApiServer(lambda: self.now)
        self.inventories = ProviderInventories()
        self.sees_cloud = True
        self.controller = NodeGroupController(self.settings, self.inventories)
        self.log: list[tuple[datetime, str]] = []
        self.crash_after: int | None = None  # writes until the process ends
        self.crashes = 0
        self.evictions_refused: set[str] = set()  # pods
        self.formerly_allowed: dict[str, int] = {}  # group → the maximum that it had before it was lowered
        self.scheduler_rests = False  # then it binds nobody
        self._names = itertools.count(1)

    # ── objects ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def group(self, name: str = "workers", **spec: Any) -> Json:
        basic = {
            "minNodes": 0, "maxNodes": 5, "datacenterID": "dc-1", "resourceIdentifier": "c", "project": "p",
            "offeringIDs": ["small"], "kubernetesVersion": "v1", "provider": "cloud", **spec,
        }  # fmt: skip
        return self.api.put(NODE_GROUPS, {"metadata": {"name": name}, "spec": basic})

    def workload(self, name: str, replicas: int, *, cpu: str = "900m", **pod: Any) -> None:
        body = {"metadata": {"name": name}, "spec": {"replicas": replicas}, "pod": {"cpu": cpu, **pod}}
        self.api.put(REPLICASETS, body)

    def scale(self, name: str, replicas: int) -> None:
        self.api.objects[REPLICASETS]["default", name]["spec"]["replicas"] = replicas

    def unready(self, name: str, *, ready: bool = False) -> None:
        body = copy.deepcopy(self.api.objects[NODES]["", name])
        body["status"]["conditions"] = [{**_ready(self.now), "status": str(ready)}]
        self.api.store(NODES, body)

    def untaint(self, name: str) -> None:
        """Someone takes every taint off the node."""
        body = copy.deepcopy(self.api.objects[NODES]["", name])
        body["spec"].pop("taints", None)
        self.api.store(NODES, body)

    def annotate_node(self, name: str, **annotations: str) -> None:
        body = copy.deepcopy(self.api.objects[NODES]["", name])
        body["metadata"].setdefault("annotations", {}).update(annotations)
        self.api.store(NODES, body)

    def bind(self, app: str, node: str) -> None:
        """A pod that names its node itself, past every scheduler: taints do not hold it up."""
        replica_set = self.api.objects[REPLICASETS]["default", app]
        before = set(self.api.objects[PODS])
        self._make_pod(replica_set)
        (place,) = set(self.api.objects[PODS]) - before
        body = copy.deepcopy(self.api.objects[PODS][place])
        body["spec"]["nodeName"] = node
        body["status"] = {"phase": "Running", "conditions": [_ready(self.now)]}
        self.api.store(PODS, body)
        replica_set["spec"]["replicas"] += 1

    def mark_deleted(self, member: VPSieNode) -> None:
        """Someone deletes it; its finalizer keeps it until its machine is gone."""
        body = copy.deepcopy(self.api.objects[VPSIE_NODES][member.namespace, member.name])
        body["metadata"]["deletionTimestamp"] = timestamp(self.now)
        self.api.store(VPSIE_NODES, body)

    def nominate(self, pod: Pod, node: str) -> None:
        """Others make room for the pod there."""
        body = copy.deepcopy(self.api.objects[PODS][pod.namespace, pod.name])
        body["status"]["nominatedNodeName"] = node
        self.api.store(PODS, body)

    def members(self) -> list[VPSieNode]:
        return self.api.typed(VPSIE_NODES)

    def pods(self) -> list[Pod]:
        return self.api.typed(PODS)

    def the_group(self, name: str = "workers") -> NodeGroup:
        found: NodeGroup = next(one for one in self.api.typed(NODE_GROUPS) if one.name == name)
        return found

    def change_group(self, name: str = "workers", **spec: Any) -> None:
        body = copy.deepcopy(self.api.objects[NODE_GROUPS]["default", name])
        body["spec"] |= spec
        self.api.store(NODE_GROUPS, body)

    # ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def run(self, seconds: float, *, step: float = 1.0) -> None:
        end = self.now + timedelta(seconds=seconds)
        while self.now < end:
            self.tick()
            self.now += timedelta(seconds=step)

    def tick(self) -> None:
        """One moment of everyone: machines join, controllers make pods, the scheduler binds, and the operator decides."""
        self._machines_join()
        self._replicas()
        self._schedule()
        if self.sees_cloud and not self.cloud.unreachable:
            self.inventories.record("cloud", self.cloud.listing(self.now))
        try:
            self._operator()
        except _Crash:
            self.restart()
        judge_groups(self)

    def restart(self) -> None:
        """The process is gone, with all that it remembered."""
        self.crashes += 1
        self.crash_after = None
        self.inventories = ProviderInventories()
        self.controller = NodeGroupController(self.settings, self.inventories)

    def decide_all_without_others(self) -> None:
        """The operator alone, on whatever the view shows."""
        self._operator()

    def _operator(self) -> None:
        keys = [CLUSTER, *(VPSIE_NODES.key(one) for one in self.members())]
        for key in keys:
            self.decide(key)

    def decide(self, key: Key) -> Decision:
        decision = self.controller.decide(key, self.api.view(), self.now)
        self.act(decision)
        return decision

    # ── what the door does ───────────────────────────────────────────────────────────────────────────────────────────

    def act(self, decision: Decision) -> None:
        for action in decision.actions:
            status = self._perform(action)
            self.log.append((self.now, f"{type(action).__name__} {status} {action.why}"))
            if decision.in_order and status != "done":
                return

    def _perform(self, action: Action) -> str:
        if isinstance(action, Transaction):
            return self._converse(action)
        if isinstance(action, Evict):
            return self._evict(action)
        return self._write(action).status

    def _write(self, action: Write) -> WriteResult:
        if self.crash_after is not None:
            self.crash_after -= 1
            if self.crash_after == 0:
                raise _Crash  # before it is sent
        match action:
            case CreateMachine() | DeleteMachine():
                answer = self._ask_cloud(action)
            case Create():
                answer = self.api.create(action)
            case Delete():
                answer = self._delete(action)
            case Patch():
                answer = self.api.patch(action)
        if self.crash_after is not None:
            self.crash_after -= 1
            if self.crash_after <= 0:
                raise _Crash  # after it was applied, before its reply was read
        return answer

    def _delete(self, action: Delete) -> WriteResult:
        if action.target.resource == NODES:
            judge_node_removal(self, action.target.name)
        return self.api.delete(action)

    def _evict(self, action: Evict) -> str:
        place = (action.pod.namespace, action.pod.name)
        live = self.api.objects[PODS].get(place)
        if not action.pod.uid:
            raise Broken("S8: an eviction without a UID")
        if live is None or live["metadata"]["uid"] != action.pod.uid:
            return "gone"
        if action.pod.name in self.evictions_refused:
            return "refused"
        del self.api.objects[PODS][place]
        return "done"

    def _ask_cloud(self, action: CreateMachine | DeleteMachine) -> WriteResult:
        try:
            if isinstance(action, CreateMachine):
                machine = self.cloud.create(action, self.now)
                judge_groups(self)
                return WriteResult("done", machine=machine)
            judge_machine_removal(self, action)
            self.cloud.delete(action.machine_id)
            return WriteResult("done")
        except QuotaExceeded as error:
            return WriteResult("refused", detail=str(error), code="QuotaExceeded")
        except OfferingUnavailable as error:
            return WriteResult("refused", detail=str(error), code="OfferingUnavailable")
        except AmbiguousOutcome as error:
            return WriteResult("unknown", detail=str(error))
        except ProviderError as error:
            return WriteResult("failed", detail=str(error))

    def _converse(self, conversation: Transaction) -> str:
        moment = Moment(self.now, (self.now - START).total_seconds())
        state, request = conversation.step(conversation.start, TransactionStarted(moment, "token"))
        while not isinstance(request, End):
            match request:
                case Get():
                    live = self.api.objects[request.resource].get((request.namespace, request.name))
                    item = convert(live, request.resource.type) if live is not None else None
                    reply: Any = Found(moment, item)
                case ListAll():
                    items = [convert(one, request.resource.type) for one in self.api.objects[request.resource].values()]
                    name = request.field_selector.removeprefix("spec.nodeName=")
                    reply = Listed(moment, tuple(one for one in items if one.spec.node_name == name))
                case _:
                    reply = WritesDone(moment, tuple(self._write(write) for write in request.writes))
            state, request = conversation.step(state, reply)
        return request.status

    # ── everyone else ────────────────────────────────────────────────────────────────────────────────────────────────

    def _machines_join(self) -> None:
        for machine in list(self.cloud.machines.values()):
            joined = self.now >= self.cloud.ready_at[machine.id] + timedelta(seconds=2)
            if not joined or machine.offering in self.cloud.never_join:
                continue
            name = self.cloud.node_name(machine)
            if ("", name) not in self.api.objects[NODES]:
                self._join(machine, name)
            self._start(machine, name)
        machines = {self.cloud.node_name(machine) for machine in self.cloud.machines.values()}
        for (_, name), node in list(self.api.objects[NODES].items()):
            if node["spec"].get("providerID", "").startswith("cloud://") and name not in machines:
                for place, pod in list(self.api.objects[PODS].items()):
                    if pod["spec"].get("nodeName") == name:
                        del self.api.objects[PODS][place]

    def _join(self, machine: Machine, name: str) -> None:
        sold = next(one for one in self.cloud.offerings if one.id == machine.offering)
        size = {
            resource: f"{amount.milli - self.cloud.reserved.get(resource, 0)}m"
            for resource, amount in sold.capacity.items()
            if resource not in self.cloud.late
        }
        taints = [{"key": self.cloud.startup_taint[0], "effect": "NoSchedule"}] if self.cloud.startup_taint else []
        self.api.put(
            NODES,
            {
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                "spec": {"providerID": f"cloud://{machine.id}", "taints": taints},
                "status": {"allocatable": size, "capacity": size, "conditions": [_ready(self.now)]},
            },
        )

    def _start(self, machine: Machine, name: str) -> None:
        """Agents on the node: one removes its start-up taint, device plug-ins register their resources."""
        body = copy.deepcopy(self.api.objects[NODES]["", name])
        age = self.now - (self.cloud.ready_at[machine.id] + timedelta(seconds=2))
        if self.cloud.startup_taint is not None:
            key, after = self.cloud.startup_taint
            if after is not None and age >= after:
                body["spec"]["taints"] = [one for one in body["spec"].get("taints") or [] if one["key"] != key]
        for resource, after in self.cloud.late.items():
            sold = next(one for one in self.cloud.offerings if one.id == machine.offering)
            if age >= after and resource in sold.capacity:
                body["status"]["allocatable"][resource] = f"{sold.capacity[resource].milli}m"
        if body != self.api.objects[NODES]["", name]:
            self.api.store(NODES, body)

    def _replicas(self) -> None:
        for replica_set in self.api.objects[REPLICASETS].values():
            name, wanted = replica_set["metadata"]["name"], replica_set["spec"]["replicas"]
            own = [pod for pod in self.api.objects[PODS].values() if pod["metadata"]["labels"].get("app") == name]
            for pod in own[wanted:]:
                del self.api.objects[PODS]["default", pod["metadata"]["name"]]
            for _ in range(wanted - len(own)):
                self._make_pod(replica_set)

    def _make_pod(self, replica_set: Json) -> None:
        asked, name = dict(replica_set["pod"]), replica_set["metadata"]["name"]
        owner = {"kind": "ReplicaSet", "name": name, "uid": replica_set["metadata"]["uid"], "controller": True}
        requests = {"cpu": asked.pop("cpu"), "memory": asked.pop("memory", "64Mi"), **asked.pop("requests", {})}
        meta = {
            "name": f"{name}-{next(self._names)}",
            "labels": {"app": name},
            "annotations": asked.pop("annotations", {}),
            "ownerReferences": [owner],
        }
        spec = {"containers": [{"name": "main", "resources": {"requests": requests}}], **asked}
        self.api.put(PODS, {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}})

    def _schedule(self) -> None:
        waiting = [pod for pod in self.pods() if not pod.spec.node_name]
        if not waiting:
            return
        nodes = [node for node in self.api.typed(NODES) if node.ready]
        packing = pack(Snapshot.build(nodes, self.pods()), waiting)
        for pod in waiting:
            body = copy.deepcopy(self.api.objects[PODS][pod.namespace, pod.name])
            node = packing.placements.get(pod.uid) if not self.scheduler_rests else None
            if node is not None:
                body["spec"]["nodeName"] = node
                body["status"] = {"phase": "Running", "conditions": [_ready(self.now)]}
            elif body["status"].get("conditions"):
                continue
            else:
                since = {"lastTransitionTime": timestamp(self.now)}
                body["status"]["conditions"] = [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", **since}
                ]
            self.api.store(PODS, body)


class _Crash(Exception):
    pass


def _ready(now: datetime) -> Json:
    return {"type": "Ready", "status": "True", "lastTransitionTime": timestamp(now)}


def said(world: World) -> Iterable[str]:
    return (f"{(moment - START).total_seconds():.0f}: {text}" for moment, text in world.log)
