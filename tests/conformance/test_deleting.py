"""Deletions: preconditions, grace, finalizers, owners."""

from __future__ import annotations

from tests.conformance.build import APPS, config_map, deployment, pod
from tests.conformance.sides import MERGE, Side, same

_OTHER_UID = "00000000-0000-4000-8000-000000000000"


async def test_deleting(both: tuple[Side, Side]) -> None:
    await same(deleting, both)


async def deleting(side: Side) -> None:
    maps, path = side.path("configmaps"), side.path("configmaps", "one")
    _, made = await side.ask("POST", maps, config_map())
    metadata = made["metadata"]
    await side.tell("another object", "DELETE", path, {"preconditions": {"uid": _OTHER_UID}})
    await side.tell("another state", "DELETE", path, {"preconditions": {"resourceVersion": "1"}})
    both = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    await side.tell("tried out", "DELETE", path, params={"dryRun": "All"})
    answer = await side.tell("this one", "DELETE", path, {"preconditions": both})
    side.note("success names what it was about", [answer["status"], answer["details"]["uid"] == metadata["uid"]])
    await side.tell("once more", "DELETE", path)

    held = {**config_map("held"), "metadata": {"name": "held", "finalizers": ["example.org/hold"]}}
    await side.ask("POST", maps, held)
    path = side.path("configmaps", "held")
    await side.tell(
        "held by a finalizer", "DELETE", path, show=("metadata.deletionGracePeriodSeconds", "metadata.finalizers")
    )
    code, still = await side.ask("GET", path)
    side.note("still there", [code, "deletionTimestamp" in still["metadata"]])
    await side.tell("let go", "PATCH", path, {"metadata": {"finalizers": None}}, form=MERGE)
    await side.tell("gone", "GET", path)

    for number in range(3):
        body = config_map(f"many-{number}")
        body["metadata"]["labels"] = {"many": str(number > 0).lower()}
        await side.ask("POST", maps, body)
    code, answer = await side.ask("DELETE", maps, params={"labelSelector": "many=true"})
    side.note("many at once", [code, answer["kind"]])
    _, left = await side.ask("GET", maps, params={"labelSelector": "many"})
    side.note("left", [one["metadata"]["name"] for one in left["items"]])


async def test_pods_get_time_to_stop(both: tuple[Side, Side]) -> None:
    await same(grace, both)


async def grace(side: Side) -> None:
    await side.add_nodes("1 cpu=4")
    pods = side.path("pods")
    await side.ask("POST", pods, pod(side, "waits", schedulerName="nobody"))
    await side.tell("bound to nothing", "DELETE", side.path("pods", "waits"), show=("metadata.name",))
    await side.tell("goes at once", "GET", side.path("pods", "waits"))
    slow = {"controlplane.test/gone-after": "3600s"}
    await side.ask("POST", pods, pod(side, "runs", annotations=slow, terminationGracePeriodSeconds=20))
    await side.until(side.path("pods", "runs"), lambda one: one["status"]["phase"] == "Running", "it runs")
    _, before = await side.ask("GET", side.path("pods", "runs"))
    shown = ("metadata.deletionGracePeriodSeconds", "metadata.generation")
    await side.tell("asked to stop", "DELETE", side.path("pods", "runs"), show=shown)
    await side.tell("asked again", "DELETE", side.path("pods", "runs"), show=shown)
    await side.tell("in less time", "DELETE", side.path("pods", "runs"), {"gracePeriodSeconds": 5}, show=shown[:1])
    await side.tell("at once", "DELETE", side.path("pods", "runs"), {"gracePeriodSeconds": 0}, show=("metadata.name",))
    await side.tell("gone", "GET", side.path("pods", "runs"))
    side.note(
        "the fields of a running pod",
        sorted({"podIP", "hostIP", "startTime", "phase", "conditions"} & before["status"].keys()),
    )


async def test_what_is_owned_goes_with_its_owner(both: tuple[Side, Side]) -> None:
    await same(owners, both)


async def owners(side: Side) -> None:
    maps = side.path("configmaps")
    _, owner = await side.ask("POST", maps, config_map("owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    for name in ("child", "adopted"):
        body = config_map(name)
        body["metadata"]["ownerReferences"] = [reference]
        await side.ask("POST", maps, body)
    _, other = await side.ask("POST", maps, config_map("second"))
    second = {**reference, "name": "second", "uid": other["metadata"]["uid"]}
    await side.ask("PATCH", f"{maps}/adopted", {"metadata": {"ownerReferences": [reference, second]}}, form=MERGE)
    await side.ask("DELETE", f"{maps}/owner", {"propagationPolicy": "Background"})
    await side.gone(f"{maps}/child")
    left = await side.until(
        f"{maps}/adopted", lambda one: len(one["metadata"]["ownerReferences"]) == 1, "one owner left"
    )
    side.note("who has another owner stays", left["metadata"]["ownerReferences"][0]["name"])

    path = side.path("deployments", "web", group=APPS)
    await side.ask("POST", side.path("deployments", group=APPS), deployment(side, replicas=1))
    sets = side.path("replicasets", group=APPS)
    await side.until(sets, lambda found: found["items"], "a replica set")
    await side.tell(
        "in the foreground", "DELETE", path, {"propagationPolicy": "Foreground"}, show=("metadata.finalizers",)
    )
    await side.gone(path)
    _, left = await side.ask("GET", sets)
    side.note("its dependents went first", len(left["items"]))
