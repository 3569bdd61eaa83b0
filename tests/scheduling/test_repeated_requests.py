"""What one question leaves behind for the next holds only as long as it is true."""

from __future__ import annotations

from plimsoll.scheduling.fits import fits
from plimsoll.scheduling.model import Constraint
from plimsoll.scheduling.pack import pack
from plimsoll.scheduling.snapshot import CacheChange, Snapshot
from tests.scheduling.cases import node, pod
from tests.scheduling.menus import HOSTNAME, apart, container

SMALL = {"spec": {"containers": [container("c", {"cpu": "10m"})]}}
ROOMY = {"cpu": "8", "memory": "16Gi", "pods": "110"}
BATCH = [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]


def labelled(**labels: str) -> dict[str, object]:
    return {"metadata": {"labels": labels}}


def away_from(**labels: str) -> dict[str, object]:
    return apart({"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": labels}})


def homes(snapshot: Snapshot, name: str = "p") -> list[str]:
    return list(pack(snapshot, [pod(name, SMALL)]).placements.values())


def test_a_node_that_is_tainted_and_then_is_not():
    plain, tainted = node("n"), node("n", taints=BATCH)
    snapshot = Snapshot.build([plain], [])
    assert homes(snapshot) == ["n"]
    snapshot.apply([CacheChange(plain, tainted)])
    assert homes(snapshot) == []
    snapshot.apply([CacheChange(tainted, plain)])
    assert homes(snapshot) == ["n"]


def test_nodes_that_come_and_go():
    one, other = node("n"), node("m")
    snapshot = Snapshot.build([one], [])
    assert homes(snapshot) == ["n"]
    snapshot.apply([CacheChange(None, other), CacheChange(one, None)])
    assert homes(snapshot) == ["m"]


def test_a_node_that_is_away_for_a_trial():
    snapshot = Snapshot.build([node("n")], [])
    assert homes(snapshot) == ["n"]
    with snapshot.trial():
        snapshot.remove_node("n")
        assert homes(snapshot) == []
    assert homes(snapshot) == ["n"]


def test_a_node_that_is_there_for_a_trial():
    snapshot = Snapshot.build([node("n", taints=BATCH)], [])
    facts = Snapshot.build([node("m")], []).nodes[0]
    assert facts is not None
    with snapshot.trial():
        snapshot.add_node(facts)
        assert homes(snapshot) == ["m"]
    assert homes(snapshot) == []


def test_a_pod_that_keeps_others_away_and_was_met_later():
    snapshot = Snapshot.build([node("n")], [])
    asked = pod("p", SMALL, labelled(app="a"))
    assert fits(snapshot, asked, "n") is None
    snapshot.add(pod("guard", SMALL, away_from(app="a")), "n")
    refusal = fits(snapshot, asked, "n")
    assert refusal is not None and refusal.rule is Constraint.EXISTING_ANTI_AFFINITY
    assert fits(snapshot, pod("q", SMALL, labelled(app="b")), "n") is None
    snapshot.remove("uid-guard")
    assert fits(snapshot, asked, "n") is None


def test_of_many_that_keep_others_away_those_are_found_that_mean_the_pod():
    guards = [pod(f"guard-{number}", SMALL, away_from(app=f"a{number}"), node="n") for number in range(40)]
    everyone = apart({"topologyKey": HOSTNAME, "labelSelector": {}})
    snapshot = Snapshot.build([node("n", ROOMY), node("m", ROOMY)], [*guards, pod("hermit", SMALL, everyone, node="m")])
    assert fits(snapshot, pod("p", SMALL, labelled(app="a39")), "n") is not None
    assert fits(snapshot, pod("p", SMALL, labelled(app="a40")), "n") is None
    assert fits(snapshot, pod("p", SMALL, labelled(app="a40")), "m") is not None


def test_of_many_that_are_counted_all_are():
    """More kinds of pods than are looked for one by one."""
    others = [pod(f"o{number}", SMALL, labelled(app="a", number=str(number)), node="n") for number in range(40)]
    snapshot = Snapshot.build([node("n", ROOMY), node("m", ROOMY)], others)
    asked = pod("p", SMALL, labelled(app="b"), away_from(app="a"))
    assert list(pack(snapshot, [asked]).placements.values()) == ["m"]
    for number in range(39):
        snapshot.remove(f"uid-o{number}")
    assert list(pack(snapshot, [asked]).placements.values()) == ["m"], "the last one is still there"
    snapshot.remove("uid-o39")
    snapshot.remove_node("m")
    assert list(pack(snapshot, [asked]).placements.values()) == ["n"]
