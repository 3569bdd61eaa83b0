"""CSI attach limits and ReadWriteOncePod: volumes that a node cannot take, or that another pod holds."""

from __future__ import annotations

import pickle
from typing import Any

from plimsoll.kube.cache.store import View
from plimsoll.kube.codec import convert
from plimsoll.kube.types.core import Node, Pod
from plimsoll.kube.types.resources import CLAIMS, CSI_NODES, NAMESPACES, NODES, PODS, STORAGE_CLASSES, VOLUMES
from plimsoll.kube.types.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from plimsoll.scheduling.fits import fits
from plimsoll.scheduling.model import ComingNode, Constraint, Template
from plimsoll.scheduling.pack import pack, packing_request, solve
from plimsoll.scheduling.removal import removable
from plimsoll.scheduling.snapshot_cache import SnapshotCache
from tests.scheduling import menus
from tests.scheduling.cases import Case, node, offering, pod

DRIVER = "disk.example.com"
TYPE = "node.kubernetes.io/instance-type"
FAST = convert(
    {"metadata": {"name": "fast"}, "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"}, StorageClass
)


def claim(name: str, *, bound: bool = True, modes: tuple[str, ...] = ("ReadWriteOnce",)) -> PersistentVolumeClaim:
    spec = {"storageClassName": "fast", "accessModes": list(modes), "volumeName": f"pv-{name}" if bound else ""}
    return convert({"metadata": {"name": name, "namespace": "blue"}, "spec": spec}, PersistentVolumeClaim)


def volume(name: str, driver: str = DRIVER) -> PersistentVolume:
    csi = {"driver": driver, "volumeHandle": f"vol-{name}"}
    return convert({"metadata": {"name": f"pv-{name}"}, "spec": {"csi": csi}}, PersistentVolume)


def csi_node(name: str, count: int | None, driver: str = DRIVER) -> CSINode:
    allocatable = {"count": count} if count is not None else None
    return convert(
        {"metadata": {"name": name}, "spec": {"drivers": [{"name": driver, "allocatable": allocatable}]}}, CSINode
    )


def user(name: str, *claims: str, on: str = "") -> Pod:
    volumes = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims or (name,)]
    return pod(name, {"spec": {"volumes": volumes}}, node=on)


def cluster(
    *bound: Pod, limits: dict[str, int | None], claims: tuple[PersistentVolumeClaim, ...] = (), **more: Any
) -> Case:
    names = [v.persistent_volume_claim.claim_name for p in bound for v in p.spec.volumes if v.persistent_volume_claim]
    made = {c.name: c for c in (*(claim(name) for name in names), *(claim(n) for n in ("a", "b", "c")), *claims)}
    return Case(
        nodes=more.pop("nodes", tuple(node(name) for name in limits)),
        bound=bound,
        claims=tuple(made.values()),
        volumes=tuple(volume(name) for name in made),
        storage_classes=(FAST,),
        csi_nodes=tuple(csi_node(name, count) for name, count in limits.items()),
        **more,
    )


def test_a_full_node_takes_no_further_volume() -> None:
    snapshot = cluster(user("old", "x", "y", on="full"), limits={"full": 2, "free": 3}).snapshot()
    reason = fits(snapshot, user("a"), "full")
    assert reason is not None and reason.rule is Constraint.VOLUME_ATTACH_LIMIT
    assert reason.message == f"node full can attach 0 more volumes, the pod needs 1 of driver {DRIVER}"
    assert fits(snapshot, user("a"), "free") is None
    assert fits(snapshot, pod("without"), "full") is None


def test_volumes_of_one_plan_add_up() -> None:
    packing = pack(cluster(limits={"n": 2}).snapshot(), [user("a"), user("b"), user("c")])
    assert len(packing.placements) == 2
    ((reason,),) = [why.values() for why in packing.unplaced.values()]
    assert reason.rule is Constraint.VOLUME_ATTACH_LIMIT


def test_drivers_are_counted_apart_and_without_a_limit_not_at_all() -> None:
    other = cluster(user("old", "x", on="n"), limits={"n": 1})
    elsewhere = Case(
        nodes=other.nodes, bound=other.bound, claims=other.claims, storage_classes=(FAST,), csi_nodes=other.csi_nodes,
        volumes=tuple(volume(c.name, "other.example.com" if c.name == "a" else DRIVER) for c in other.claims),
    )  # fmt: skip
    assert fits(elsewhere.snapshot(), user("a"), "n") is None
    assert fits(cluster(user("old", "x", on="n"), limits={"n": None}).snapshot(), user("a"), "n") is None


def test_a_shared_volume_counts_once_on_its_node() -> None:
    both = (user("one", "shared", on="n"), user("two", "shared", on="n"))
    assert fits(cluster(*both, limits={"n": 2}).snapshot(), user("a"), "n") is None


def test_volumes_that_are_still_attached_count() -> None:
    attached = {"status": {"volumesAttached": [{"name": f"kubernetes.io/csi/{DRIVER}^vol-left"}]}}
    busy = convert(
        {
            "metadata": {"name": "n"},
            "status": {"allocatable": dict(menus.CAPACITIES[0]), **attached["status"]},
        },
        Node,
    )
    reason = fits(cluster(limits={"n": 1}, nodes=(busy,)).snapshot(), user("a"), "n")
    assert reason is not None and reason.rule is Constraint.VOLUME_ATTACH_LIMIT


def test_an_unbound_claim_needs_an_attachment_too() -> None:
    snapshot = cluster(user("old", "x", on="n"), limits={"n": 1}, claims=(claim("a", bound=False),)).snapshot()
    reason = fits(snapshot, user("a"), "n")
    assert reason is not None and reason.rule is Constraint.VOLUME_ATTACH_LIMIT


def test_new_nodes_have_the_limit_of_their_type_or_the_lowest_that_is_known() -> None:
    nodes = (node("small", labels={TYPE: "s"}), node("large", labels={TYPE: "l"}))
    full = (user("o1", "x", on="small"), user("o2", "y1", "y2", "y3", on="large"))
    snapshot = cluster(*full, limits={"small": 1, "large": 3}, nodes=nodes).snapshot()
    three = [user("a"), user("b"), user("c")]
    for kind, expected in (("l", 1), ("s", 3), ("never seen", 3)):
        template = Template("t", (offering("o", menus.CAPACITIES[0], 1.0, labels={TYPE: kind}),))
        packing = pack(snapshot, three, [template], headroom=False)
        assert not packing.unplaced and len(packing.new_nodes) == expected, kind
        assert all("attachable" not in name for new in packing.new_nodes for name in new.requested)
    too_many = pack(snapshot, [user("all", "a", "b", "c")], [Template("t", (offering("o", menus.CAPACITIES[0], 1.0),))])
    assert too_many.unplaced["uid-all"]["t"].rule is Constraint.VOLUME_ATTACH_LIMIT
    coming = ComingNode("soon", {TYPE: "s"}, nodes[0].status.allocatable)
    assert len(pack(snapshot, three, coming=[coming]).placements) == 1


def test_a_node_is_not_removable_if_its_volumes_fit_nowhere_else() -> None:
    bound = (user("one", "x", on="a-node"), user("two", "y", on="b-node"))
    (tight,) = removable(cluster(*bound, limits={"a-node": 1, "b-node": 1}).snapshot(), ["a-node"])
    assert tight.reason is not None and tight.reason.rule is Constraint.VOLUME_ATTACH_LIMIT
    assert f"1 volumes of driver {DRIVER} attached, all other nodes together take 0 more" in tight.reason.message
    (loose,) = removable(cluster(*bound, limits={"a-node": 1, "b-node": 2}).snapshot(), ["a-node"])
    assert loose.plan == {"uid-one": "b-node"}


def test_limits_follow_the_cache_and_reach_the_worker() -> None:
    case = cluster(user("old", "x", on="n"), limits={"n": 1})
    view = View.of(
        {
            NODES: case.nodes, PODS: case.bound, NAMESPACES: case.namespaces, CLAIMS: case.claims,
            VOLUMES: case.volumes, STORAGE_CLASSES: [FAST], CSI_NODES: [],
        }
    )  # fmt: skip
    cache = SnapshotCache()
    assert fits(cache.of(view), user("a"), "n") is None
    view[CSI_NODES].put(csi_node("n", 1))
    assert fits(cache.of(view), user("a"), "n") is not None
    with packing_request(cache.of(view), [user("a")], [], coming=[], headroom=False) as request:
        there = pickle.loads(pickle.dumps(request))
    assert solve(there).unplaced
    view[CSI_NODES].remove("", "n")
    assert fits(cache.of(view), user("a"), "n") is None


# ── ReadWriteOncePod ─────────────────────────────────────────────────────────────────────────────────────────────────

ONE_POD = claim("only", modes=("ReadWriteOncePod",))


def test_a_claim_for_one_pod_is_not_given_to_a_second() -> None:
    snapshot = cluster(user("first", "only", on="n"), limits={"n": 9, "m": 9}, claims=(ONE_POD,)).snapshot()
    reason = fits(snapshot, user("second", "only"), "m")
    assert reason is not None and reason.rule is Constraint.VOLUME
    assert reason.message == "claim blue/only is ReadWriteOncePod and in use by pod blue/first"


def test_two_pending_pods_of_one_such_claim_are_refused() -> None:
    packing = pack(
        cluster(limits={"n": 9}, claims=(ONE_POD,)).snapshot(), [user("first", "only"), user("second", "only")]
    )
    assert set(packing.unplaced) == {"uid-first", "uid-second"}
    assert pack(cluster(limits={"n": 9}, claims=(ONE_POD,)).snapshot(), [user("first", "only")]).placements


def test_its_own_pod_may_move() -> None:
    case = cluster(user("first", "only", on="n"), limits={"n": 9, "m": 9}, claims=(ONE_POD,))
    (removal,) = removable(case.snapshot(), ["n"])
    assert removal.plan == {"uid-first": "m"}
