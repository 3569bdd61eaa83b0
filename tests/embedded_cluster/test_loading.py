"""Objects of a snapshot in an embedded cluster."""

from __future__ import annotations

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.clocks import VirtualClock, run_virtually
from plimsoll.embedded_cluster.cluster import EmbeddedCluster


async def _uids(number: int, loaded: list[str]) -> list[str]:
    async with EmbeddedCluster(VirtualClock()) as cluster:
        cluster.load(
            kinds.CONFIGMAPS,
            [
                {"metadata": {"name": f"c{index}", "namespace": "default", "uid": uid}}
                for index, uid in enumerate(loaded)
            ],
        )
        made = [
            await cluster.create(kinds.CONFIGMAPS, {"metadata": {"name": f"new{index}"}}) for index in range(number)
        ]
        return [one["metadata"]["uid"] for one in made]


def test_new_objects_never_get_the_uid_of_a_loaded_one():
    """A snapshot of a cluster with the same seed holds exactly the UIDs that would be drawn next."""
    first = run_virtually(_uids(5, []))
    assert set(run_virtually(_uids(5, first))) & set(first) == set()


def test_a_manifest_without_a_generation_gets_one():
    """Files written by hand have none, and the controllers report which generation they observed."""

    async def loaded() -> int:
        async with EmbeddedCluster(VirtualClock()) as cluster:
            spec = {
                "replicas": 1,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"spec": {"containers": []}},
            }
            cluster.load(kinds.REPLICASETS, [{"metadata": {"name": "web", "namespace": "default"}, "spec": spec}])
            (stored,) = cluster.all(kinds.REPLICASETS)
            return int(stored["metadata"]["generation"])

    assert run_virtually(loaded()) == 1
