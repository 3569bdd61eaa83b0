"""Each record says what the view and the controllers say."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from plimsoll.controllers.allocation.types import WekaContainer
from plimsoll.controllers.nodegroups.controller import CLUSTER, GroupsDecision
from plimsoll.controllers.nodegroups.report import GroupVerdict
from plimsoll.controllers.nodegroups.scale_up.scale_up import ScaleUpPlan
from plimsoll.controllers.nodegroups.types import NodeGroup, VPSieNode
from plimsoll.controllers.placement.annotations import CLASS
from plimsoll.kube.codec import convert
from plimsoll.kube.types.core import Taint
from plimsoll.kube.types.resources import PODS, Key
from plimsoll.runtime.audit import AuditRecord
from plimsoll.runtime.decision import Blocker, Decision, Evict, Reason, Ref
from plimsoll.runtime.outcome import ActionResult, Outcome
from tests import build
from tests.dashboard.scene import ALL, SPOT, Scene, read


async def whole(scene: Scene) -> dict[str, Any]:
    snapshot = scene.snapshot()
    scene.decide(snapshot)
    await snapshot.renew()
    return read(snapshot.whole())


async def test_a_node_with_its_pods() -> None:
    scene = Scene()
    found = (await whole(scene))["nodes"]["n2"]
    assert found == {
        "zone": "b", "group": "", "class": "spot", "state": "ready", "cpu": [0, 8000], "memory": [0, 32 * 2**30],
        "pods": [["web-1-2", "Deployment/default/web", "r"]],
    }  # fmt: skip


async def test_requests_of_pods_that_run() -> None:
    scene = Scene()
    queries = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "250m", "memory": "1Gi"}}}]}
    scene.put(build.pod("a", node="n1", spec=queries), build.pod("b", node="n1", spec=queries, phase="Succeeded"))
    found = (await whole(scene))["nodes"]["n1"]
    assert (found["cpu"][0], found["memory"][0]) == (250, 2**30)


async def test_states_of_pods_and_whose_they_are() -> None:
    scene = Scene()
    scene.put(
        build.pod("alone", node="n1"),
        build.pod("starting", node="n1", owner=build.stateful_set("db"), ready=False),
        build.pod("leaving", node="n1", terminating=True),
        build.pod("failed", node="n1", phase="Failed"),
        build.pod("misplaced", node="n1", annotations={CLASS: "spot"}),
    )
    cells = {cell[0]: cell[1:] for cell in (await whole(scene))["nodes"]["n1"]["pods"]}
    assert cells["alone"] == ["Pod/default/alone", "r"]
    assert cells["starting"] == ["StatefulSet/default/db", "s"]
    assert cells["leaving"][1] == "t"
    assert cells["failed"][1] == "f"
    assert cells["misplaced"] == ["Pod/default/misplaced", "r", "spot"]


async def test_states_of_nodes() -> None:
    scene = Scene()
    plain = build.node("n4")
    tainted = {
        "leaving": "ToBeDeletedByClusterAutoscaler", "draining": "plimsoll.dev/leaving",
    }  # fmt: skip
    scene.put(
        build.node("lost", ready=False), replace(build.node("cordoned"), spec=replace(plain.spec, unschedulable=True))
    )
    for name, key in tainted.items():
        scene.put(replace(build.node(name), spec=replace(plain.spec, taints=(Taint(key, "NoSchedule"),))))
    found = {name: node["state"] for name, node in (await whole(scene))["nodes"].items()}
    assert found["n1"] == "ready"
    assert found["lost"] == "not-ready"
    assert {name: found[name] for name in ("cordoned", "leaving", "draining")} == {
        "cordoned": "cordoned", "leaving": "leaving", "draining": "draining"
    }  # fmt: skip


async def test_a_workload_is_told_by_the_decisions_about_it() -> None:
    found = (await whole(Scene()))["workloads"]["Deployment/default/web"]
    assert found["target"] == {"spot": 2, "onDemand": 1}
    assert found["current"] == {"spot": 1, "onDemand": 2}
    assert found["action"] == "migrate-to-spot"
    assert found["replicas"] == 3
    assert sorted(row[0] for row in found["deletionOrder"]) == ["web-1-1", "web-1-2", "web-1-3"]
    assert {row[1] for row in found["deletionOrder"]} == {"a", "b", "c"}


async def test_what_the_door_refused_stands_among_the_blockers() -> None:
    scene = Scene()
    snapshot = scene.snapshot()
    pod = next(iter(scene.view[PODS]))
    key = Key("Deployment", "default", "web")
    evict = Evict(Ref.to(PODS, pod), key, Reason("MigratingToSpot", "it moves"))
    blocker = Blocker("NotEnoughPdb", "the budget allows none", datetime(2026, 1, 1, tzinfo=UTC))
    outcome = Outcome((ActionResult(evict, "refused", "", blocker),))
    snapshot.acted("placement", key, Decision(reason=evict.why, actions=(evict,)), outcome)
    await snapshot.renew()
    (found,) = read(snapshot.whole())["workloads"]["Deployment/default/web"]["blockers"]
    assert found == {"code": "NotEnoughPdb", "words": "the budget allows none", "until": "2026-01-01T00:00:00Z"}


async def test_annotations_that_cannot_be_followed_are_errors() -> None:
    scene = Scene()
    faulty = {**scene.web.annotations, "spotalis.io/spot-percentage": "seventy"}
    scene.put(replace(scene.web, metadata=replace(scene.web.metadata, annotations=faulty)))
    found = (await whole(scene))["workloads"]["Deployment/default/web"]
    assert found["target"] is None
    assert "seventy" in found["errors"][0]


async def test_a_pod_that_waits_says_why() -> None:
    scene = Scene()
    message = "0/3 nodes are available: 3 Insufficient cpu."
    waiting = build.pod("waiting", node="", phase="Pending")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    scene.put(replace(waiting, status=convert({"phase": "Pending", "conditions": [condition]}, type(waiting.status))))
    scene.put(build.pod("unseen", node="", phase="Pending"))
    gated = build.pod("gated", node="", phase="Pending", spec={"schedulingGates": [{"name": "quota"}]})
    scene.put(gated)
    found = (await whole(scene))["pending"]
    assert found.keys() == {"default/waiting", "default/unseen", "default/gated"}
    assert found["default/waiting"]["why"] == message
    assert "has not tried" in found["default/unseen"]["why"]
    assert "quota" in found["default/gated"]["why"]


async def test_groups_of_others_are_counted() -> None:
    scene = Scene()
    for number, ready in ((1, True), (2, True), (3, False)):
        scene.put(build.node(f"k{number}", labels={"karpenter.sh/nodepool": "general", **SPOT}, ready=ready))
    found = (await whole(scene))["groups"]["general"]
    assert (found["current"], found["ready"], found["class"]) == (3, 2, "spot")
    assert found["min"] is found["max"] is found["desired"] is None


async def test_a_group_of_ours_and_its_nodes() -> None:
    scene = Scene(*ALL)
    group = {
        "metadata": build.metadata("pool", "infra"),
        "spec": {"minNodes": 1, "maxNodes": 5, "offeringIDs": ["small"], "provider": "kwok", "labels": SPOT},
    }
    scene.put(convert(group, NodeGroup))
    for name, phase in (("n1", "Ready"), ("pool-2", "Provisioning")):
        member = {
            "metadata": build.metadata(f"vn-{name}", "infra"),
            "spec": {"nodeGroupName": "pool", "nodeName": name, "provider": "kwok"},
            "status": {"phase": phase},
        }
        scene.put(convert(member, VPSieNode))
    found = await whole(scene)
    record = found["groups"]["infra/pool"]
    assert (record["min"], record["max"], record["current"], record["ready"]) == (1, 5, 2, 1)
    assert (record["class"], record["offerings"]) == ("spot", ["small"])
    assert any("kwok" in blocker["words"] for blocker in record["blockers"])
    assert found["nodes"]["n1"]["group"] == "infra/pool"
    assert found["nodes"]["pool-2"]["state"] == "coming"


async def test_drives_and_ports_by_node() -> None:
    scene = Scene(*ALL)
    drives = build.node("store", annotations={"weka.io/weka-drives": '["SN-1","SN-2","SN-3"]'})
    scene.put(drives)
    holder = {
        "metadata": build.metadata("backend", "default"),
        "spec": {"nodeAffinity": "store", "mode": "drive", "numDrives": 1, "numCores": 1},
        "status": {"allocations": {"drives": ["SN-2"], "wekaPort": 35000, "agentPort": 35100}},
    }
    scene.put(convert(holder, WekaContainer))
    found = (await whole(scene))["allocations"]
    assert found.keys() == {"store"}
    held = {one["device"]: (one["container"], one["state"]) for one in found["store"]["drives"]}
    assert held == {"SN-1": (None, "free"), "SN-2": ("default/backend", "committed"), "SN-3": (None, "free")}
    assert any(ports["from"] <= 35000 <= ports["to"] for ports in found["store"]["ports"])


async def test_the_timeline_has_what_was_done_and_what_was_held_up() -> None:
    scene = Scene()
    snapshot = scene.snapshot()
    at = datetime(2026, 1, 1, tzinfo=UTC)
    snapshot.recorded(
        AuditRecord(at, "me", "1", "placement", "Deployment/default/web", "Evict", "Pod/default/web-1-1", "uid", "Moving",
                    "it moves", "done", patch={"secret": "of the patch"})
    )  # fmt: skip
    key = Key("Deployment", "default", "web")
    held = Decision(reason=Reason("Blocked", "a window is shut"), blockers=(Blocker("Window", "a window is shut"),))
    for _ in range(3):
        snapshot.acted("placement", key, held, Outcome())
    snapshot.acted("placement", key, Decision(reason=Reason("Settled", "all is well")), Outcome())
    await snapshot.renew()
    data = snapshot.whole()
    assert b"of the patch" not in data
    assert [(one["action"], one["object"], one["why"], one["result"]) for one in read(data)["decisions"]] == [
        ("Evict", "Pod/default/web-1-1", "it moves", "done"),
        ("Blocked", "Deployment/default/web", "a window is shut", "held up"),
        ("Settled", "Deployment/default/web", "all is well", "settled"),
    ]


async def test_the_timeline_does_not_grow_without_end() -> None:
    snapshot = Scene().snapshot()
    for number in range(1200):
        key, pod = f"Deployment/default/w{number}", f"Pod/default/p{number}"
        snapshot.recorded(
            AuditRecord(datetime.now(UTC), "me", "1", "placement", key, "Patch", pod, "uid", "Cost", "why", "done")
        )
    await snapshot.renew()
    found = read(snapshot.whole())["decisions"]
    assert len(found) == 500
    assert found[-1]["object"] == "Pod/default/p1199"


async def test_many_alike_are_one_entry() -> None:
    snapshot = Scene().snapshot()

    def record(key: str, pod: str, result: str = "done") -> AuditRecord:
        at = datetime.now(UTC)
        return AuditRecord(
            at, "me", "1", "deletion-cost", key, "Patch", f"Pod/default/{pod}", "u", "Cost", f"for {pod}", result
        )

    for number in range(300):
        snapshot.recorded(record("Deployment/default/web", f"p{number}"))
    snapshot.recorded(record("Deployment/default/web", "p300", "conflict"))
    snapshot.recorded(record("Deployment/default/api", "q1"))
    await snapshot.renew()
    assert [(one["object"], one["why"], one["result"]) for one in read(snapshot.whole())["decisions"]] == [
        ("Deployment/default/web", "for p0; and 299 more like it", "done"),
        ("Pod/default/p300", "for p300", "conflict"),
        ("Pod/default/q1", "for q1", "done"),
    ]


async def test_what_groups_said_to_a_pod_that_waits_and_what_holds_them_up() -> None:
    scene = Scene(*ALL)
    for name in ("pool", "pool-2"):
        scene.put(convert({"metadata": build.metadata(name, "infra"), "spec": {"maxNodes": 5}}, NodeGroup))
    scene.put(build.pod("waits", node="", phase="Pending"))
    snapshot = scene.snapshot()
    plan = ScaleUpPlan(refusals={"default/waits": {"infra/pool": "it asks for 64 CPUs, and the largest has 8"}})
    blockers = (
        Blocker("ScaleUpCooldown", "group infra/pool-2 was scaled up at 10:00:00; it rests"),
        Blocker("ProviderUnknown", "group infra/pool: nothing recent is known of kwok"),
        Blocker("ClusterUnhealthy", "most nodes are not ready"),
    )
    decision = GroupsDecision(reason=Reason("NoGroupHelps", "1 pod waits"), scale_up=plan, blockers=blockers)
    snapshot.acted("nodegroups", CLUSTER, decision, Outcome())
    await snapshot.renew()
    found = read(snapshot.whole())
    assert found["pending"]["default/waits"]["tried"] == [
        {"group": "infra/pool", "why": "it asks for 64 CPUs, and the largest has 8"}
    ]
    codes = {name: [one["code"] for one in group["blockers"]] for name, group in found["groups"].items()}
    assert codes == {
        "infra/pool": ["ProviderUnknown", "ClusterUnhealthy"],
        "infra/pool-2": ["ScaleUpCooldown", "ClusterUnhealthy"],
    }
    snapshot.acted("nodegroups", CLUSTER, GroupsDecision(reason=Reason("ScalingUp", "1 node more")), Outcome())
    change = read(await snapshot.renew() or b"")
    assert change["pending"]["default/waits"]["tried"] == []


async def test_a_pod_that_waits_is_told_how_far_its_node_has_come() -> None:
    scene = Scene(*ALL)
    scene.put(build.pod("waits", node="", phase="Pending"))

    def member(phase: str) -> VPSieNode:
        ordered = {"phase": phase, "createdAt": "2026-01-31T12:00:00Z"}
        spec = {"nodeGroupName": "pool"}
        return convert({"metadata": build.metadata("pool-1", "infra"), "spec": spec, "status": ordered}, VPSieNode)

    scene.put(member("Provisioning"))
    snapshot = scene.snapshot()
    plan = ScaleUpPlan(places={"default/waits": "pool-1"})
    snapshot.acted("nodegroups", CLUSTER, GroupsDecision(reason=Reason("Settled", ""), scale_up=plan), Outcome())
    await snapshot.renew()
    assert read(snapshot.whole())["pending"]["default/waits"]["awaits"] == {
        "group": "infra/pool", "node": "pool-1", "phase": "Provisioning", "orderedAt": "2026-01-31T12:00:00Z",
    }  # fmt: skip
    scene.put(member("Joining"))
    change = read(await snapshot.renew() or b"")
    assert change["pending"]["default/waits"]["awaits"]["phase"] == "Joining", (
        "told by the node, before anything is decided anew"
    )
    scene.put(member("Ready"))
    change = read(await snapshot.renew() or b"")
    assert change["pending"]["default/waits"]["awaits"] is None


POOL = "infra/pool"


@pytest.mark.parametrize(
    ("verdict", "reason", "told"),
    [
        (GroupVerdict(POOL, 1, 1), Reason("Settled", "each group has the nodes that it needs"), "the group has the nodes it needs"),
        (GroupVerdict(POOL, 1, 2, 1, reason="PendingPods"), Reason("ScalingUp", ""), "1 node is being added: pending pods need it"),
        (
            GroupVerdict(POOL, 1, 3, 2, reason="BelowDesired"), Reason("ScalingUp", ""),
            "2 nodes are being added: the group is below its desired size",
        ),
        (GroupVerdict(POOL, 2, 1, removing=1), Reason("ScalingDown", "n1 is empty"), "n1 is empty"),
        (GroupVerdict(POOL, 2, 2, spec_problem="minNodes is above maxNodes"), Reason("Settled", "all"), "minNodes is above maxNodes"),
    ],
)  # fmt: skip
async def test_a_group_is_told_about_itself(verdict: GroupVerdict, reason: Reason, told: str) -> None:
    """A decision is about all groups; of one that settled, how many others did is no news."""
    scene = Scene(*ALL)
    spec = {"minNodes": 1, "maxNodes": 5, "offeringIDs": ["small"], "provider": "kwok"}
    scene.put(convert({"metadata": build.metadata("pool", "infra"), "spec": spec}, NodeGroup))
    snapshot = scene.snapshot()
    snapshot.acted("nodegroups", CLUSTER, GroupsDecision(reason=reason, verdicts=(verdict,)), Outcome())
    await snapshot.renew()
    assert read(snapshot.whole())["groups"]["infra/pool"]["why"] == told
