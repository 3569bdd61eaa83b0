"""Evictions under budgets, and the scale subresource."""

from __future__ import annotations

from tests.conformance.build import APPS, POLICY, budget, deployment, eviction, pod
from tests.conformance.sides import MERGE, Json, Side, same

_OTHER_UID = "00000000-0000-4000-8000-000000000000"
_STATUS = ("status.disruptionsAllowed", "status.currentHealthy", "status.desiredHealthy", "status.expectedPods")


async def test_evicting(both: tuple[Side, Side]) -> None:
    await same(evicting, both)


async def evicting(side: Side) -> None:
    await side.add_nodes("2 cpu=4")
    await side.ask("POST", side.path("deployments", group=APPS), deployment(side, replicas=3))
    budgets = side.path("poddisruptionbudgets", group=POLICY)
    await side.ask("POST", budgets, budget("web", "web", minAvailable=3))

    def settled(found: Json) -> bool:
        status = found.get("status") or {}
        return status.get("currentHealthy") == 3 and status.get("observedGeneration") == found["metadata"]["generation"]

    await side.until(f"{budgets}/web", settled, "three healthy pods")
    await side.tell("a strict budget", "GET", f"{budgets}/web", show=_STATUS)
    first, *_ = await _names(side)
    path = side.path("pods", first, "eviction")
    await side.tell("refused", "POST", path, eviction(first))
    await side.tell("refused when tried out", "POST", path, eviction(first), params={"dryRun": "All"})
    await side.ask("PATCH", f"{budgets}/web", {"spec": {"minAvailable": 2}}, form=MERGE)
    await side.until(f"{budgets}/web", lambda one: one["status"]["disruptionsAllowed"] == 1, "one to spare")
    await side.tell("tried out", "POST", path, eviction(first), params={"dryRun": "All"})
    await side.tell("which spends nothing", "GET", f"{budgets}/web", show=_STATUS)
    await side.tell("allowed", "POST", path, eviction(first))
    await side.gone(side.path("pods", first))
    await side.until(f"{budgets}/web", settled, "three healthy pods again")
    first, *_ = await _names(side)
    side.call(first, "POD")
    await side.tell(
        "another pod of that name", "POST", side.path("pods", first, "eviction"),
        eviction(first, preconditions={"uid": _OTHER_UID}),
    )  # fmt: skip
    await side.tell("nobody", "POST", side.path("pods", "nobody", "eviction"), eviction("nobody"))

    await side.ask("POST", budgets, budget("second", "web", maxUnavailable=1))
    await side.until(f"{budgets}/second", settled, "the second budget looks, too")
    await side.tell("a budget by what may be missing", "GET", f"{budgets}/second", show=_STATUS)
    await side.tell("two budgets", "POST", side.path("pods", first, "eviction"), eviction(first))

    await side.ask("POST", side.path("pods"), pod(side, "waits", labels={"app": "web"}, schedulerName="nobody"))
    await side.tell("a pod that never ran", "POST", side.path("pods", "waits", "eviction"), eviction("waits"))
    await side.tell("is gone", "GET", side.path("pods", "waits"))


async def test_unready_pods(both: tuple[Side, Side]) -> None:
    await same(unready, both)


async def unready(side: Side) -> None:
    await side.add_nodes("2 cpu=4")
    budgets = side.path("poddisruptionbudgets", group=POLICY)
    ill = {"controlplane.test/ready": "false"}
    for name, notes in (("well", {}), ("ill", ill), ("sick", ill)):
        await side.ask(
            "POST",
            side.path("pods"),
            pod(side, name, labels={"app": "web"}, annotations=notes, terminationGracePeriodSeconds=0),
        )
        await side.until(side.path("pods", name), lambda one: one["status"]["phase"] == "Running", "it runs")
    await side.ask("POST", budgets, budget("web", "web", minAvailable=2))
    await side.until(
        f"{budgets}/web", lambda one: (one.get("status") or {}).get("expectedPods") == 3, "the budget looks"
    )
    await side.tell("too few are well", "GET", f"{budgets}/web", show=_STATUS)
    await side.tell("so nobody goes", "POST", side.path("pods", "ill", "eviction"), eviction("ill"))
    await side.ask("PATCH", f"{budgets}/web", {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}, form=MERGE)
    await side.until(f"{budgets}/web", lambda one: one["status"]["observedGeneration"] == 2, "the budget looks again")
    await side.tell("unless they may always", "POST", side.path("pods", "ill", "eviction"), eviction("ill"))
    await side.gone(side.path("pods", "ill"))
    await side.ask(
        "PATCH", f"{budgets}/web", {"spec": {"unhealthyPodEvictionPolicy": None, "minAvailable": 1}}, form=MERGE
    )
    await side.until(
        f"{budgets}/web", lambda one: one["status"]["observedGeneration"] == 3, "the budget looks once more"
    )
    await side.tell("or enough are well", "POST", side.path("pods", "sick", "eviction"), eviction("sick"))


async def _names(side: Side) -> list[str]:
    _, listed = await side.ask("GET", side.path("pods"), params={"labelSelector": "app=web"})
    return [one["metadata"]["name"] for one in listed["items"] if "deletionTimestamp" not in one["metadata"]]


async def test_scaling(both: tuple[Side, Side]) -> None:
    await same(scaling, both)


async def scaling(side: Side) -> None:
    path = side.path("deployments", "web", group=APPS)
    await side.ask("POST", side.path("deployments", group=APPS), deployment(side, replicas=2, paused=True))
    show = ("kind", "apiVersion", "spec", "status.selector", "metadata.name")
    scale = await side.tell("a scale", "GET", f"{path}/scale", show=show)
    await side.tell("patched", "PATCH", f"{path}/scale", {"spec": {"replicas": 3}}, form=MERGE, show=show)
    await side.tell(
        "put",
        "PUT",
        f"{path}/scale",
        {**scale, "metadata": {"name": "web", "namespace": side.namespace}, "spec": {"replicas": 4}},
        show=show,
    )
    await side.tell("the deployment", "GET", path, show=("spec.replicas", "metadata.generation"))
    code, answer = await side.ask("PATCH", f"{path}/scale", {"spec": {"replicas": -1}}, form=MERGE)
    side.note("fewer than none", [code, answer["reason"]])
    await side.tell("nobody", "GET", side.path("deployments", "nobody", "scale", group=APPS))
    await side.tell("of a kind that has none", "GET", side.path("configmaps", "x", "scale"))
