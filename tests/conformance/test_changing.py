"""Updates and patches: locks, what endpoints may change, and what counts as a change."""

from __future__ import annotations

from tests.conformance.build import APPS, config_map, deployment, pod
from tests.conformance.sides import BRIEF, JSON_PATCH, MERGE, STRATEGIC, Side, same

_OTHER_UID = "00000000-0000-4000-8000-000000000000"


async def test_locks(both: tuple[Side, Side]) -> None:
    await same(locks, both)


async def locks(side: Side) -> None:
    maps, path = side.path("configmaps"), side.path("configmaps", "one")
    _, first = await side.ask("POST", maps, config_map())
    _, second = await side.ask("PATCH", path, {"data": {"a": "2"}}, form=MERGE)
    await side.tell("a stale PUT", "PUT", path, first)
    await side.tell(
        "a PUT of another object", "PUT", path, {**second, "metadata": {**second["metadata"], "uid": _OTHER_UID}}
    )
    await side.tell(
        "a PUT under another name", "PUT", path, {**second, "metadata": {**second["metadata"], "name": "two"}}
    )
    stale = {"metadata": {"resourceVersion": first["metadata"]["resourceVersion"]}, "data": {"a": "3"}}
    await side.tell("a stale patch", "PATCH", path, stale, form=MERGE)
    await side.tell("a patch of another object", "PATCH", path, {"metadata": {"uid": _OTHER_UID}}, form=MERGE)
    fresh = {"metadata": {"resourceVersion": second["metadata"]["resourceVersion"]}, "data": {"b": "1", "a": None}}
    third = await side.tell("a fresh patch", "PATCH", path, fresh, form=MERGE, show=("data",))
    same_again = await side.tell(
        "a patch that changes nothing", "PATCH", path, {"data": {"b": "1"}}, form=MERGE, show=("data",)
    )
    side.note("is none", third["metadata"]["resourceVersion"] == same_again["metadata"]["resourceVersion"])
    await side.tell("missing", "PATCH", side.path("configmaps", "nobody"), {}, form=MERGE)
    code, answer = await side.ask("PATCH", path, {}, form="application/json")
    side.note("a form that is none", [code, answer["reason"]])
    dry = {"data": {"b": "9"}}
    await side.tell("tried out", "PATCH", path, dry, form=MERGE, params={"dryRun": "All"}, show=("data",))
    await side.tell("which leaves nothing", "GET", path, show=("data",))


async def test_brief_answers(both: tuple[Side, Side]) -> None:
    await same(brief_answers, both)


async def brief_answers(side: Side) -> None:
    maps, path = side.path("configmaps"), side.path("configmaps", "one")

    async def tell(what: str, method: str, path: str, body: object = None, form: str = "application/json") -> None:
        code, answer = await side.ask(method, path, body, form=form, accept=BRIEF)
        metadata = answer["metadata"]
        side.note(what, [code, answer["kind"], answer["apiVersion"], sorted(answer), metadata.get("annotations")])

    await tell("created", "POST", maps, config_map())
    changed = {"metadata": {"annotations": {"a": "1"}}, "data": {"a": "2"}}
    await tell("changed", "PATCH", path, changed, STRATEGIC)
    await tell("changed otherwise", "PATCH", path, {"metadata": {"annotations": {"a": "2"}}}, MERGE)
    await tell("read", "GET", path)
    other = {"metadata": {"uid": _OTHER_UID, "annotations": {"a": "3"}}}
    await side.tell("refused as ever", "PATCH", path, other, form=STRATEGIC, accept=BRIEF)
    await side.tell("missing", "PATCH", side.path("configmaps", "nobody"), {}, form=STRATEGIC, accept=BRIEF)
    await side.tell("the data is changed all the same", "GET", path, show=("kind", "data"))


async def test_json_patches(both: tuple[Side, Side]) -> None:
    await same(json_patches, both)


async def json_patches(side: Side) -> None:
    path = side.path("configmaps", "one")
    await side.ask("POST", side.path("configmaps"), config_map())

    async def patch(what: str, *operations: dict[str, object]) -> None:
        code, answer = await side.ask("PATCH", path, list(operations), form=JSON_PATCH)
        side.note(
            what, [code, answer.get("reason", ""), answer.get("data"), (answer.get("details") or {}).get("causes")]
        )

    await patch(
        "add and replace",
        {"op": "add", "path": "/data/b", "value": "2"},
        {"op": "replace", "path": "/data/a", "value": "x"},
    )
    await patch(
        "a test that holds", {"op": "test", "path": "/data/a", "value": "x"}, {"op": "remove", "path": "/data/b"}
    )
    await patch(
        "a test that fails", {"op": "test", "path": "/data/a", "value": "y"}, {"op": "remove", "path": "/data/a"}
    )
    await patch("another object", {"op": "test", "path": "/metadata/uid", "value": _OTHER_UID})
    await patch("nothing to remove", {"op": "remove", "path": "/data/zzz"})
    await patch("a key with a slash", {"op": "add", "path": "/metadata/annotations", "value": {}}, {
        "op": "add", "path": "/metadata/annotations/example.org~1key", "value": "1"})  # fmt: skip
    await patch(
        "copy and move",
        {"op": "copy", "from": "/data/a", "path": "/data/c"},
        {"op": "move", "from": "/data/c", "path": "/data/d"},
    )


async def test_what_endpoints_may_change(both: tuple[Side, Side]) -> None:
    await same(endpoints, both)


async def endpoints(side: Side) -> None:
    pods = side.path("pods")
    await side.ask("POST", pods, pod(side, "alone", schedulerName="nobody"))
    path = side.path("pods", "alone")
    status = {"status": {"phase": "Running", "message": "hello"}}
    await side.tell("a status at the pod", "PATCH", path, status, form=MERGE, show=("status.phase", "status.message"))
    await side.tell(
        "a status at its own place", "PATCH", f"{path}/status", {**status, "spec": {"schedulerName": "other"}}, form=MERGE,
        show=("status.phase", "status.message", "spec.schedulerName"),
    )  # fmt: skip
    code, answer = await side.ask("PATCH", path, {"spec": {"schedulerName": "other"}}, form=MERGE)
    side.note("a spec that is fixed", [code, answer["reason"], answer["details"]["causes"][0]["field"]])
    marked = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "7"}}}
    await side.tell(
        "an annotation", "PATCH", path, marked, form=MERGE, show=("metadata.annotations", "metadata.generation")
    )


async def test_generations(both: tuple[Side, Side]) -> None:
    await same(generations, both)


async def generations(side: Side) -> None:
    path = side.path("deployments", "web", group=APPS)
    show = ("metadata.generation",)
    await side.tell(
        "made", "POST", side.path("deployments", group=APPS), deployment(side, replicas=0, paused=True), show=show
    )
    await side.tell("annotated", "PATCH", path, {"metadata": {"annotations": {"a": "1"}}}, form=MERGE, show=show)
    await side.tell("another spec", "PATCH", path, {"spec": {"minReadySeconds": 5}}, form=MERGE, show=show)
    await side.tell("the same spec", "PATCH", path, {"spec": {"minReadySeconds": 5}}, form=MERGE, show=show)
    await side.tell(
        "another selector", "PATCH", path, {"spec": {"selector": {"matchLabels": {"app": "other"}}}}, form=MERGE
    )


async def test_strategic_merge_patches(both: tuple[Side, Side]) -> None:
    await same(strategic_patches, both)


async def strategic_patches(side: Side) -> None:
    path = side.path("deployments", "web", group=APPS)
    await side.ask("POST", side.path("deployments", group=APPS), deployment(side, replicas=0, paused=True))

    def spec(**fields: object) -> dict[str, object]:
        return {"spec": {"template": {"spec": fields}}}

    def names(answer: dict[str, object]) -> object:
        return [[one["name"], one.get("image"), one.get("env")] for one in found_containers(answer)]

    async def patch(what: str, body: object) -> None:
        answer = await side.tell(what, "PATCH", path, body, form=STRATEGIC)
        side.note(what, names(answer))

    await patch("another container", spec(containers=[{"name": "side", "image": "example.org/side:1"}]))
    await patch("one of them changed", spec(containers=[{"name": "main", "env": [{"name": "A", "value": "1"}]}]))
    await patch("its environment grown", spec(containers=[{"name": "main", "env": [{"name": "B", "value": "2"}]}]))
    await patch("ordered", spec(**{"$setElementOrder/containers": [{"name": "side"}, {"name": "main"}]}))
    await patch("one taken away", spec(containers=[{"name": "side", "$patch": "delete"}]))
    tolerations = [{"key": "a", "operator": "Exists"}]
    await side.tell(
        "a list that is replaced",
        "PATCH",
        path,
        spec(tolerations=tolerations),
        form=STRATEGIC,
        show=("spec.template.spec.tolerations",),
    )


def found_containers(answer: dict[str, object]) -> list[dict[str, object]]:
    template: dict[str, dict[str, list[dict[str, object]]]] = answer["spec"]["template"]  # type: ignore[index]
    return template["spec"]["containers"]
