"""Server-side apply: owners, conflicts, force, and fields that are no longer asked for."""

from __future__ import annotations

from tests.conformance.build import APPS, deployment
from tests.conformance.sides import APPLY, MERGE, Json, Side, same


async def test_applying(both: tuple[Side, Side]) -> None:
    await same(applying, both)


async def applying(side: Side) -> None:
    path = side.path("configmaps", "one")
    base: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}

    async def apply(
        what: str, manager: str, body: Json, *, force: bool = False, at: str = path, show: tuple[str, ...] = ("data",)
    ) -> Json:
        params = {"fieldManager": manager, **({"force": "true"} if force else {})}
        return await side.tell(what, "PATCH", at, body, form=APPLY, params=params, show=show)

    first = await apply("made", "ann", {**base, "data": {"a": "1", "b": "1"}})
    again = await apply("the same again", "ann", {**base, "data": {"a": "1", "b": "1"}})
    side.note("changes nothing", first["metadata"]["resourceVersion"] == again["metadata"]["resourceVersion"])
    await apply("another's field", "bob", {**base, "data": {"a": "2"}})
    await apply("the same value is no conflict", "bob", {**base, "data": {"a": "1", "c": "3"}})
    await apply("no longer asked for", "ann", {**base, "data": {"b": "1"}})
    await apply("taken by force", "bob", {**base, "data": {"b": "2"}}, force=True)
    await apply("and lost", "ann", {**base, "data": {"b": "1"}})
    code, answer = await side.ask("PATCH", path, base, form=APPLY)
    side.note("by nobody", [code, answer["reason"]])
    _, live = await side.ask("GET", path)
    owners = [[one["manager"], one["operation"], one["fieldsV1"]] for one in live["metadata"]["managedFields"]]
    side.note("who owns what", sorted(owners, key=str))

    web = side.path("deployments", "web", group=APPS)
    body = deployment(side, replicas=2, paused=True)
    show = ("spec.replicas", "spec.template.spec.containers.0.image", "spec.template.spec.containers.1.name")
    await apply("a deployment", "ann", body, at=web, show=show)
    await side.ask("PATCH", web, {"spec": {"replicas": 5}}, form=MERGE, params={"fieldManager": "carl"})
    await apply("someone has changed it since", "ann", body, at=web, show=show)
    without = {**body, "spec": {field: value for field, value in body["spec"].items() if field != "replicas"}}
    await apply("and is left to it", "ann", without, at=web, show=show)
    beside: Json = {"containers": [{"name": "beside", "image": "example.org/beside:1"}]}
    more = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"template": {"spec": beside}},
    }
    await apply("a container of another's", "bob", more, at=web, show=show)
    await apply("taken away again", "bob", {**more, "spec": {}}, at=web, show=show)
