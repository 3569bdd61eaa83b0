"""Creations, and why they are refused."""

from __future__ import annotations

from tests.conformance.build import APPS, POLICY, budget, config_map, deployment, pod
from tests.conformance.sides import Side, same

_DEFAULTED = (
    "spec.replicas", "spec.strategy", "spec.revisionHistoryLimit", "spec.progressDeadlineSeconds", "metadata.generation",
    "spec.template.spec.restartPolicy", "spec.template.spec.schedulerName", "spec.template.spec.terminationGracePeriodSeconds",
    "spec.template.spec.containers.0.imagePullPolicy", "spec.template.spec.dnsPolicy",
)  # fmt: skip
_POD_FIELDS = (
    "spec.tolerations", "spec.priority", "spec.preemptionPolicy", "spec.terminationGracePeriodSeconds", "spec.schedulerName",
    "status.phase", "status.qosClass", "metadata.generation", "spec.containers.0.resources",
)  # fmt: skip


async def test_creating(both: tuple[Side, Side]) -> None:
    await same(creating, both)


async def creating(side: Side) -> None:
    maps, deployments = side.path("configmaps"), side.path("deployments", group=APPS)
    made = await side.tell(
        "a new one", "POST", maps, config_map(), show=("data", "metadata.namespace", "kind", "apiVersion")
    )
    side.note(
        "what every object has", sorted({"uid", "resourceVersion", "creationTimestamp"} & made["metadata"].keys())
    )
    await side.tell("once more", "POST", maps, config_map())
    await side.tell("a name that is none", "POST", maps, config_map("Not A Name"))
    generated = {**config_map(), "metadata": {"generateName": "made-"}}
    answer = await side.tell("a name is made", "POST", maps, generated, show=("metadata.generateName",))
    side.note("its length", len(answer["metadata"]["name"]))
    await side.tell("no name at all", "POST", maps, {**config_map(), "metadata": {}})
    await side.tell(
        "for another namespace", "POST", maps, {**config_map(), "metadata": {"name": "x", "namespace": "default"}}
    )
    code, answer = await side.ask("POST", maps, {**config_map("other"), "kind": "Secret"})
    side.note("of another kind", [code, answer["reason"]])
    await side.tell("a namespace that is not there", "POST", "/api/v1/namespaces/nowhere/configmaps", config_map())
    await side.tell("tried out", "POST", maps, config_map("dry"), params={"dryRun": "All"}, show=("data",))
    await side.tell("which leaves nothing", "GET", side.path("configmaps", "dry"))
    code, answer = await side.ask(
        "POST", maps, {**config_map("typed"), "metadata": {"name": "typed", "labels": {"a": 1}}}
    )
    side.note("a label that is a number", [code, answer["reason"]])

    await side.tell("a deployment", "POST", deployments, deployment(side, replicas=0), show=_DEFAULTED)
    wrong = deployment(side, "wrong")
    wrong["spec"]["selector"] = {"matchLabels": {"app": "other"}}
    await side.tell("a selector that misses its template", "POST", deployments, wrong)
    await side.tell("fewer than none", "POST", deployments, deployment(side, "wrong", replicas=-1))
    code, answer = await side.ask("POST", deployments, deployment(side, "wrong", replicas="three"))  # type: ignore[arg-type]
    side.note("replicas in words", [code, answer["reason"]])
    empty = deployment(side, "wrong")
    empty["spec"]["template"]["spec"]["containers"] = []
    await side.tell("no containers", "POST", deployments, empty)

    await side.tell("a pod", "POST", side.path("pods"), pod(side, "alone"), show=_POD_FIELDS)
    budgets = side.path("poddisruptionbudgets", group=POLICY)
    await side.tell("a budget", "POST", budgets, budget("good", "web", minAvailable=1), show=("spec.minAvailable",))
    code, answer = await side.ask("POST", budgets, budget("wrong", "web", minAvailable=1, maxUnavailable=1))
    side.note("a budget that says two things", [code, answer["reason"], answer["details"]["causes"][0]["field"]])
    lease = {"metadata": {"name": "mine"}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 0}}
    leases = side.path("leases", group="coordination.k8s.io/v1")
    await side.tell("a lease of no time", "POST", leases, lease)
