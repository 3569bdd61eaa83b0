"""A cluster and a cloud in memory and in virtual time, in which decisions are carried out and every revision is judged.

The API server is modelled as far as node groups lean on it: patches with UID and resourceVersion, finalizers, eviction, live lists. The
scheduler binds what fits. The cloud makes machines after a while, forgets replies, shows old lists, runs out, or makes machines that
never join. S6, S7, S8 and S10 are judged at the moment at which something happens, not afterwards.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from plimsoll.conversation import Answer, Answered, End, Found, Get, ListAll, Listed, Moment, Opened, Write
from plimsoll.decision import (
    Action,
    Converse,
    Create,
    CreateMachine,
    Decision,
    Delete,
    DeleteMachine,
    Evict,
    Patch,
)
from plimsoll.kube.codec import convert
from plimsoll.kube.quantity import parse_quantity
from plimsoll.kube.resources import (
    BUDGETS,
    CLAIMS,
    DAEMONSETS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICASETS,
    STATEFULSETS,
    VOLUMES,
    Key,
    Resource,
)
from plimsoll.kube.store import View
from plimsoll.kube.types import Pod
from plimsoll.nodegroups.controller import CLUSTER, NodeGroupController
from plimsoll.nodegroups.seen import must_move
from plimsoll.nodegroups.settings import NodeGroupSettings
from plimsoll.nodegroups.sightings import Sighting, Sightings
from plimsoll.nodegroups.types import NODE_GROUPS, VPSIE_NODES, NodeGroup, VPSieNode
from plimsoll.nodegroups.writes import LEAVING
from plimsoll.providers.errors import AmbiguousOutcome, OfferingUnavailable, ProviderError, QuotaExceeded
from plimsoll.providers.provider import Capabilities, Machine, Offering
from plimsoll.scheduling.pack import pack
from plimsoll.scheduling.snapshot import Snapshot

START = datetime(2026, 1, 1, tzinfo=UTC)
KINDS: tuple[Resource[Any], ...] = (
    NODE_GROUPS, VPSIE_NODES, NODES, PODS, BUDGETS, NAMESPACES, CLAIMS, VOLUMES, DAEMONSETS, DEPLOYMENTS, REPLICASETS,
    STATEFULSETS,
)  # fmt: skip
Json = dict[str, Any]
RETRY = timedelta(seconds=1)


def stamp(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def offering(offering_id: str, cpu: str, memory: str, price: float = 0.1, **fields: Any) -> Offering:
    size = {"cpu": parse_quantity(cpu), "memory": parse_quantity(memory), "pods": parse_quantity("110")}
    return Offering(offering_id, capacity=size, price_per_hour=price, **fields)


SMALL, LARGE = offering("small", "2", "8Gi", 0.05), offering("large", "8", "32Gi", 0.2)


class Cloud:
    """Machines by id. What goes wrong is set by the test, or drawn from its random numbers."""

    def __init__(
        self, offerings: Sequence[Offering] = (SMALL, LARGE), *, makes: timedelta = timedelta(seconds=5)
    ) -> None:
        self.offerings = list(offerings)
        self.makes = makes
        self.machines: dict[str, Machine] = {}
        self.ready_at: dict[str, datetime] = {}
        self.by_key: dict[str, list[str]] = {}  # every machine ever made for a key
        self.quota: int | None = None
        self.sold_out: set[str] = set()
        self.never_join: set[str] = set()  # offerings whose machines never become nodes
        self.lost_replies = 0  # of the next so many calls, done or not
        self.unreachable = False
        self.stale = timedelta(0)  # lists show what was so long ago
        self._shown: list[tuple[datetime, list[Machine]]] = []
        self._numbers = itertools.count(1)

    def create(self, action: CreateMachine, now: datetime) -> Machine:
        request = action.request
        known = [self.machines[one] for one in self.by_key.get(request.key, ()) if one in self.machines]
        if self.unreachable:
            raise ProviderError("no route to the cloud")
        if not known:
            if request.offering in self.sold_out:
                raise OfferingUnavailable(f"{request.offering} is sold out")
            if self.quota is not None and len(self.machines) >= self.quota:
                raise QuotaExceeded(f"{self.quota} machines are all that you may have")
            machine = Machine(
                f"m{next(self._numbers)}", request.name, request.key, request.offering, request.datacenter, request.group,
            )  # fmt: skip
            self.machines[machine.id] = machine
            self.ready_at[machine.id] = now + self.makes
            self.by_key.setdefault(request.key, []).append(machine.id)
            known = [machine]
        if self.lost_replies > 0:
            self.lost_replies -= 1
            raise AmbiguousOutcome("the reply was lost")
        return known[0]

    def delete(self, machine_id: str) -> None:
        if self.unreachable:
            raise ProviderError("no route to the cloud")
        self.machines.pop(machine_id, None)
        if self.lost_replies > 0:
            self.lost_replies -= 1
            raise AmbiguousOutcome("the reply was lost")

    def listing(self, now: datetime) -> Sighting:
        shown = [
            machine if now < self.ready_at[machine.id] else _running(machine) for machine in self.machines.values()
        ]
        self._shown.append((now, shown))
        shown = next((then for at, then in reversed(self._shown) if at <= now - self.stale), [])
        able = [one if one.id not in self.sold_out else _sold_out(one) for one in self.offerings]
        places = {"dc-1": tuple(able), "dc-2": tuple(able)}
        can = Capabilities(idempotent_create=True, lists_by_group=True, makes_nodes=False)
        return Sighting.of(now, shown, places, can)


def _running(machine: Machine) -> Machine:
    return replace(machine, state="running", node_name=machine.name)


def _sold_out(one: Offering) -> Offering:
    return replace(one, available=False)


class Broken(AssertionError):
    """A rule of FAULTS.md did not hold."""


class World:
    def __init__(self, settings: NodeGroupSettings | None = None, cloud: Cloud | None = None) -> None:
        self.now = START
        self.settings = settings or NodeGroupSettings(unschedulable_pod_grace=timedelta(0))
        self.cloud = cloud or Cloud()
        self.objects: dict[Resource[Any], dict[tuple[str, str], Json]] = {kind: {} for kind in KINDS}
        self.sightings = Sightings()
        self.sees_cloud = True
        self.controller = NodeGroupController(self.settings, self.sightings)
        self.log: list[tuple[datetime, str]] = []
        self.crash_after: int | None = None  # writes until the process ends
        self.crashes = 0
        self.evictions_refused: set[str] = set()  # pods
        self.volumes_held: set[str] = set()  # nodes
        self._typed: dict[Resource[Any], dict[tuple[str, str], tuple[str, Any]]] = {kind: {} for kind in KINDS}
        self._versions = itertools.count(1)
        self._uids = itertools.count(1)
        self._names = itertools.count(1)

    # ── objects ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def put(self, kind: Resource[Any], body: Json) -> Json:
        meta = body.setdefault("metadata", {})
        meta.setdefault("namespace", "" if not kind.namespaced else "default")
        meta.setdefault("uid", f"uid-{next(self._uids)}")
        meta.setdefault("creationTimestamp", stamp(self.now))
        return self._store(kind, body)

    def _store(self, kind: Resource[Any], body: Json) -> Json:
        body["metadata"]["resourceVersion"] = str(next(self._versions))
        self.objects[kind][body["metadata"]["namespace"], body["metadata"]["name"]] = body
        return body

    def typed(self, kind: Resource[Any]) -> list[Any]:
        cache, found = self._typed[kind], []
        for name, body in self.objects[kind].items():
            version = body["metadata"]["resourceVersion"]
            if cache.get(name, ("",))[0] != version:
                cache[name] = (version, convert(body, kind.type))
            found.append(cache[name][1])
        return found

    def view(self) -> View:
        return View.of({kind: self.typed(kind) for kind in KINDS})

    def group(self, name: str = "workers", **spec: Any) -> Json:
        basic = {
            "minNodes": 0, "maxNodes": 5, "datacenterID": "dc-1", "resourceIdentifier": "c", "project": "p",
            "offeringIDs": ["small"], "kubernetesVersion": "v1", "provider": "cloud", **spec,
        }  # fmt: skip
        return self.put(NODE_GROUPS, {"metadata": {"name": name}, "spec": basic})

    def workload(self, name: str, replicas: int, *, cpu: str = "900m", **pod: Any) -> None:
        body = {"metadata": {"name": name}, "spec": {"replicas": replicas}, "pod": {"cpu": cpu, **pod}}
        self.put(REPLICASETS, body)

    def scale(self, name: str, replicas: int) -> None:
        self.objects[REPLICASETS]["default", name]["spec"]["replicas"] = replicas

    def unready(self, name: str, *, ready: bool = False) -> None:
        body = copy.deepcopy(self.objects[NODES]["", name])
        body["status"]["conditions"] = [{**_ready(self.now), "status": str(ready)}]
        self._store(NODES, body)

    def annotate_node(self, name: str, **annotations: str) -> None:
        body = copy.deepcopy(self.objects[NODES]["", name])
        body["metadata"].setdefault("annotations", {}).update(annotations)
        self._store(NODES, body)

    def bind(self, app: str, node: str) -> None:
        """A pod that names its node itself, past every scheduler: taints do not hold it up."""
        replica_set = self.objects[REPLICASETS]["default", app]
        before = set(self.objects[PODS])
        self._make_pod(replica_set)
        (place,) = set(self.objects[PODS]) - before
        body = copy.deepcopy(self.objects[PODS][place])
        body["spec"]["nodeName"] = node
        body["status"] = {"phase": "Running", "conditions": [_ready(self.now)]}
        self._store(PODS, body)
        replica_set["spec"]["replicas"] += 1

    def members(self) -> list[VPSieNode]:
        return self.typed(VPSIE_NODES)

    def pods(self) -> list[Pod]:
        return self.typed(PODS)

    def the_group(self, name: str = "workers") -> NodeGroup:
        found: NodeGroup = next(one for one in self.typed(NODE_GROUPS) if one.name == name)
        return found

    def change_group(self, name: str = "workers", **spec: Any) -> None:
        body = copy.deepcopy(self.objects[NODE_GROUPS]["default", name])
        body["spec"] |= spec
        self._store(NODE_GROUPS, body)

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
            self.sightings.enter("cloud", self.cloud.listing(self.now))
        try:
            self._operator()
        except _Crash:
            self.restart()
        self._judge()

    def restart(self) -> None:
        """The process is gone, with all that it remembered."""
        self.crashes += 1
        self.crash_after = None
        self.sightings = Sightings()
        self.controller = NodeGroupController(self.settings, self.sightings)

    def decide_all_without_others(self) -> None:
        """The operator alone, on whatever the view shows."""
        self._operator()

    def _operator(self) -> None:
        keys = [CLUSTER, *(VPSIE_NODES.key(one) for one in self.members())]
        for key in keys:
            self.decide(key)

    def decide(self, key: Key) -> Decision:
        decision = self.controller.decide(key, self.view(), self.now)
        self.act(decision)
        return decision

    # ── what the door does ───────────────────────────────────────────────────────────────────────────────────────────

    def act(self, decision: Decision) -> None:
        for action in decision.actions:
            word = self._perform(action)
            self.log.append((self.now, f"{type(action).__name__} {word} {action.why}"))
            if decision.in_order and word != "done":
                return

    def _perform(self, action: Action) -> str:
        if isinstance(action, Converse):
            return self._converse(action)
        if isinstance(action, Evict):
            return self._evict(action)
        return self._write(action).word

    def _write(self, action: Write) -> Answer:
        if self.crash_after is not None:
            self.crash_after -= 1
            if self.crash_after == 0:
                raise _Crash  # before it is sent
        match action:
            case CreateMachine() | DeleteMachine():
                answer = self._ask_cloud(action)
            case Create():
                answer = self._create(action)
            case Delete():
                answer = self._delete(action)
            case Patch():
                answer = self._patch(action)
        if self.crash_after is not None:
            self.crash_after -= 1
            if self.crash_after <= 0:
                raise _Crash  # after it was applied, before its reply was read
        return answer

    def _create(self, action: Create) -> Answer:
        place = (action.namespace, action.name)
        if place in self.objects[action.resource]:
            return Answer("conflict")
        meta = {**action.body.get("metadata", {}), "name": action.name, "namespace": action.namespace}
        return self._done(
            action.resource, self.put(action.resource, {**copy.deepcopy(dict(action.body)), "metadata": meta})
        )

    def _patch(self, action: Patch) -> Answer:
        target = action.target
        live = self.objects[target.resource].get((target.namespace, target.name))
        if live is None or live["metadata"]["uid"] != target.uid:
            return Answer("gone")
        if action.if_unchanged and live["metadata"]["resourceVersion"] != target.resource_version:
            return Answer("conflict")
        assert isinstance(action.body, dict)
        changed = _merged(
            live, {k: v for k, v in action.body.items() if (k == "status") == (action.subresource == "status")}
        )
        if changed == live:
            return self._done(target.resource, live)
        if changed["metadata"].get("deletionTimestamp") and not changed["metadata"].get("finalizers"):
            del self.objects[target.resource][target.namespace, target.name]
            return Answer("done")
        return self._done(target.resource, self._store(target.resource, changed))

    def _delete(self, action: Delete) -> Answer:
        target = action.target
        if not target.uid:
            raise Broken("S8: a deletion without a UID")
        live = self.objects[target.resource].get((target.namespace, target.name))
        if live is None or live["metadata"]["uid"] != target.uid:
            return Answer("gone")
        if target.resource_version and live["metadata"]["resourceVersion"] != target.resource_version:
            return Answer("conflict")
        if target.resource == NODES:
            self._judge_node_removal(target.name)
        if live["metadata"].get("finalizers"):
            live = copy.deepcopy(live)
            live["metadata"].setdefault("deletionTimestamp", stamp(self.now))
            self._store(target.resource, live)
        else:
            del self.objects[target.resource][target.namespace, target.name]
        return Answer("done")

    def _done(self, kind: Resource[Any], body: Json) -> Answer:
        return Answer("done", convert(body, kind.type))

    def _evict(self, action: Evict) -> str:
        place = (action.pod.namespace, action.pod.name)
        live = self.objects[PODS].get(place)
        if not action.pod.uid:
            raise Broken("S8: an eviction without a UID")
        if live is None or live["metadata"]["uid"] != action.pod.uid:
            return "gone"
        if action.pod.name in self.evictions_refused:
            return "refused"
        del self.objects[PODS][place]
        return "done"

    def _ask_cloud(self, action: CreateMachine | DeleteMachine) -> Answer:
        try:
            if isinstance(action, CreateMachine):
                machine = self.cloud.create(action, self.now)
                self._judge_machines()
                return Answer("done", machine=machine)
            self._judge_machine_removal(action)
            self.cloud.delete(action.machine_id)
            return Answer("done")
        except QuotaExceeded as error:
            return Answer("refused", detail=str(error), code="QuotaExceeded")
        except OfferingUnavailable as error:
            return Answer("refused", detail=str(error), code="OfferingUnavailable")
        except AmbiguousOutcome as error:
            return Answer("unknown", detail=str(error))
        except ProviderError as error:
            return Answer("failed", detail=str(error))

    def _converse(self, conversation: Converse) -> str:
        moment = Moment(self.now, (self.now - START).total_seconds())
        state, request = conversation.step(conversation.start, Opened(moment, "token"))
        while not isinstance(request, End):
            match request:
                case Get():
                    live = self.objects[request.resource].get((request.namespace, request.name))
                    item = convert(live, request.resource.type) if live is not None else None
                    reply: Any = Found(moment, item)
                case ListAll():
                    items = [convert(one, request.resource.type) for one in self.objects[request.resource].values()]
                    name = request.field_selector.removeprefix("spec.nodeName=")
                    reply = Listed(moment, tuple(one for one in items if one.spec.node_name == name))
                case _:
                    reply = Answered(moment, tuple(self._write(write) for write in request.writes))
            state, request = conversation.step(state, reply)
        return request.word

    # ── everyone else ────────────────────────────────────────────────────────────────────────────────────────────────

    def _machines_join(self) -> None:
        for machine in list(self.cloud.machines.values()):
            joined = self.now >= self.cloud.ready_at[machine.id] + timedelta(seconds=2)
            if (
                joined
                and machine.offering not in self.cloud.never_join
                and ("", machine.name) not in self.objects[NODES]
            ):
                sold = next(one for one in self.cloud.offerings if one.id == machine.offering)
                size = {name: f"{amount.milli}m" for name, amount in sold.capacity.items()}
                self.put(
                    NODES,
                    {
                        "metadata": {"name": machine.name, "labels": {"kubernetes.io/hostname": machine.name}},
                        "spec": {"providerID": f"cloud://{machine.id}"},
                        "status": {"allocatable": size, "capacity": size, "conditions": [_ready(self.now)]},
                    },
                )
        machines = {machine.name for machine in self.cloud.machines.values()}
        for (_, name), node in list(self.objects[NODES].items()):
            if node["spec"].get("providerID", "").startswith("cloud://") and name not in machines:
                for place, pod in list(self.objects[PODS].items()):
                    if pod["spec"].get("nodeName") == name:
                        del self.objects[PODS][place]

    def _replicas(self) -> None:
        for replica_set in self.objects[REPLICASETS].values():
            name, wanted = replica_set["metadata"]["name"], replica_set["spec"]["replicas"]
            own = [pod for pod in self.objects[PODS].values() if pod["metadata"]["labels"].get("app") == name]
            for pod in own[wanted:]:
                del self.objects[PODS]["default", pod["metadata"]["name"]]
            for _ in range(wanted - len(own)):
                self._make_pod(replica_set)

    def _make_pod(self, replica_set: Json) -> None:
        asked, name = dict(replica_set["pod"]), replica_set["metadata"]["name"]
        owner = {"kind": "ReplicaSet", "name": name, "uid": replica_set["metadata"]["uid"], "controller": True}
        requests = {"cpu": asked.pop("cpu"), "memory": asked.pop("memory", "64Mi")}
        meta = {
            "name": f"{name}-{next(self._names)}",
            "labels": {"app": name},
            "annotations": asked.pop("annotations", {}),
            "ownerReferences": [owner],
        }
        spec = {"containers": [{"name": "main", "resources": {"requests": requests}}], **asked}
        self.put(PODS, {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}})

    def _schedule(self) -> None:
        waiting = [pod for pod in self.pods() if not pod.spec.node_name]
        if not waiting:
            return
        nodes = [node for node in self.typed(NODES) if node.ready]
        packing = pack(Snapshot.build(nodes, self.pods()), waiting)
        for pod in waiting:
            body = copy.deepcopy(self.objects[PODS][pod.namespace, pod.name])
            node = packing.placements.get(pod.uid)
            if node is not None:
                body["spec"]["nodeName"] = node
                body["status"] = {"phase": "Running", "conditions": [_ready(self.now)]}
            elif body["status"].get("conditions"):
                continue
            else:
                since = {"lastTransitionTime": stamp(self.now)}
                body["status"]["conditions"] = [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", **since}
                ]
            self._store(PODS, body)

    # ── the judge ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _judge(self) -> None:
        self._judge_machines()

    def _judge_machines(self) -> None:
        for key, made in self.cloud.by_key.items():
            if len(made) > 1:
                raise Broken(f"S10: {len(made)} machines were bought for one need ({key}): {made}")
        for group in self.typed(NODE_GROUPS):
            tag = f"{group.namespace}.{group.name}"
            machines = [one for one in self.cloud.machines.values() if one.group == tag]
            going = {
                one.spec.vpsie_instance_id or one.uid
                for one in self.members()
                if one.leaving and one.spec.node_group_name == group.name
            }
            staying = [one for one in machines if one.id not in going and one.key not in going]
            if len(staying) > max(group.spec.max_nodes, self.allowed_before(group.name)):
                raise Broken(f"S7: {len(staying)} machines of {group.name} stay, {group.spec.max_nodes} are allowed")

    def allowed_before(self, group: str) -> int:
        return 0

    def _judge_machine_removal(self, action: DeleteMachine) -> None:
        if not action.machine_id:
            raise Broken("S8: a machine is deleted without an id")
        machine = self.cloud.machines.get(action.machine_id)
        if machine is None:
            return
        if not self.sightings_are_fresh():
            raise Broken(f"S12: machine {machine.id} is deleted although nothing is known of the cloud")
        node = self.objects[NODES].get(("", machine.name))
        if node is not None:
            if not any(taint["key"] == LEAVING for taint in node["spec"].get("taints") or ()):
                raise Broken(f"S6: node {machine.name} is removed without a taint")
            self._judge_node_removal(machine.name)

    def sightings_are_fresh(self) -> bool:
        found = self.sightings.of("cloud")
        return found is not None and found.is_fresh(self.now, self.settings.max_sighting_age)

    def _judge_node_removal(self, name: str) -> None:
        left = must_move(pod for pod in self.pods() if pod.spec.node_name == name)
        there = any(machine.name == name for machine in self.cloud.machines.values())
        if left and there:
            raise Broken(f"S6: node {name} is removed with pod {left[0].name} on it")
        if name in self.volumes_held and there:
            raise Broken(f"S6: node {name} is removed with a volume attached")


class _Crash(Exception):
    pass


def _ready(now: datetime) -> Json:
    return {"type": "Ready", "status": "True", "lastTransitionTime": stamp(now)}


def _merged(document: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = copy.deepcopy(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result


def said(world: World) -> Iterable[str]:
    return (f"{(moment - START).total_seconds():.0f}: {text}" for moment, text in world.log)
