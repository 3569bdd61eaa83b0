"""Gets and lists answer as the real API server does."""

from __future__ import annotations

from tests.conformance.build import config_map
from tests.conformance.sides import Side, same


async def test_reading(both: tuple[Side, Side]) -> None:
    await same(reading, both)


async def reading(side: Side) -> None:
    maps = side.path("configmaps")
    await side.tell("missing", "GET", side.path("configmaps", "nobody"))
    await side.tell("missing of a group", "GET", side.path("deployments", "nobody", group="apps/v1"))
    await side.tell("no such kind", "GET", "/apis/apps/v1/nonesuch")
    await side.tell("a method that is not there", "PUT", maps, config_map())
    for number in range(5):
        body = config_map(f"map-{number}")
        body["metadata"]["labels"] = {"app": "x", "number": str(number), **({"even": ""} if number % 2 == 0 else {})}
        await side.ask("POST", maps, body)
    for selector in ("app=x", "number!=3", "number in (1,2)", "number notin (1,2),app", "even", "!even", "app=x,even"):
        _, listed = await side.ask("GET", maps, params={"labelSelector": f"{selector},app"})
        side.note(selector, [one["metadata"]["name"] for one in listed["items"]])
    for selector in ("metadata.name=map-1", "metadata.name!=map-1"):
        _, listed = await side.ask("GET", maps, params={"fieldSelector": selector, "labelSelector": "app"})
        side.note(selector, [one["metadata"]["name"] for one in listed["items"]])
    await side.tell("a field that cannot be selected", "GET", maps, params={"fieldSelector": "data.a=1"})
    pods = side.path("pods")
    await side.tell(
        "pods of a node", "GET", pods, params={"fieldSelector": "spec.nodeName=n,status.phase!=Failed"}, show=("items",)
    )
    await side.tell("a field of pods that cannot be selected", "GET", pods, params={"fieldSelector": "spec.image=x"})
    code, answer = await side.ask("GET", maps, params={"labelSelector": "a b c"})
    side.note("a selector that is none", [code, answer["reason"]])
    await _pages(side, maps)


async def _pages(side: Side, maps: str) -> None:
    params = {"limit": "2", "labelSelector": "app"}
    names, versions = [], set()
    while True:
        _, page = await side.ask("GET", maps, params=params)
        names.append([one["metadata"]["name"] for one in page["items"]])
        versions.add(page["metadata"]["resourceVersion"])
        if len(names) == 1:
            await side.ask("POST", maps, config_map("added-meanwhile"))
        if not page["metadata"].get("continue"):
            break
        params = {**params, "continue": page["metadata"]["continue"]}
    side.note("pages", names)
    side.note("all of one moment", len(versions))
    _, whole = await side.ask("GET", maps, params={"limit": "1"})
    side.note("a page says that there is more", ["continue" in whole["metadata"], whole["kind"], whole["apiVersion"]])
    code, answer = await side.ask("GET", maps, params={"limit": "2", "continue": "nonsense"})
    side.note("a token that is none", [code, answer["reason"]])
