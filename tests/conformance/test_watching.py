"""Watches: from a revision on, from now, with selectors, with a list in front."""

from __future__ import annotations

from tests.conformance.build import config_map
from tests.conformance.sides import MERGE, Json, Side, same


async def test_watching(both: tuple[Side, Side]) -> None:
    await same(watching, both)


def _told(events: list[Json]) -> list[list[str]]:
    kept = [
        one for one in events if one["object"]["metadata"].get("name", "").startswith("w-") or one["type"] == "BOOKMARK"
    ]
    return [
        [one["type"], one["object"]["metadata"].get("name", ""), one["object"].get("data", {}).get("a", "")]
        for one in kept
    ]


async def watching(side: Side) -> None:
    maps = side.path("configmaps")
    _, listed = await side.ask("GET", maps)
    start = listed["metadata"]["resourceVersion"]
    for name in ("w-one", "w-two"):
        await side.ask("POST", maps, {**config_map(name), "metadata": {"name": name, "labels": {"mine": "yes"}}})
    await side.ask("PATCH", f"{maps}/w-one", {"data": {"a": "2"}}, form=MERGE)
    await side.ask("PATCH", f"{maps}/w-one", {"data": {"a": "2"}}, form=MERGE)
    await side.ask("PATCH", f"{maps}/w-one", {"metadata": {"labels": {"mine": "no"}}}, form=MERGE)
    await side.ask("PATCH", f"{maps}/w-one", {"metadata": {"labels": {"mine": "yes"}}}, form=MERGE)
    await side.ask("DELETE", f"{maps}/w-two")
    await side.ask("POST", maps, {**config_map("w-end"), "metadata": {"name": "w-end", "labels": {"mine": "yes"}}})

    def ended(events: list[Json]) -> bool:
        return any(one["object"]["metadata"].get("name") == "w-end" for one in events)

    since = {"resourceVersion": start}
    everything = await side.events(maps, since, until=ended)
    side.note("from a revision on", _told(everything))
    versions = [int(one["object"]["metadata"]["resourceVersion"]) for one in everything]
    side.note("each revision is newer than the one before", versions == sorted(set(versions)))
    side.note("those of a label", _told(await side.events(maps, {**since, "labelSelector": "mine=yes"}, until=ended)))
    named = {**since, "fieldSelector": "metadata.name=w-end"}
    side.note("one by name", _told(await side.events(maps, named, until=ended)))

    def all_there(events: list[Json]) -> bool:
        return len(_told(events)) == 2  # in an order that is the server's own

    side.note("from now, with what there is", sorted(_told(await side.events(maps, {}, until=all_there))))


async def test_lists_as_watches(both: tuple[Side, Side]) -> None:
    await same(lists_as_watches, both)


async def lists_as_watches(side: Side) -> None:
    maps = side.path("configmaps")
    for name in ("w-one", "w-two", "w-three"):
        await side.ask("POST", maps, config_map(name))
    await side.ask("PATCH", f"{maps}/w-one", {"data": {"a": "2"}}, form=MERGE)
    await side.ask("DELETE", f"{maps}/w-two")

    def listed_all(events: list[Json]) -> bool:
        return any(one["type"] == "BOOKMARK" for one in events)

    streamed = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    events = await side.events(maps, streamed, until=listed_all)
    side.note("a list as a watch", sorted(_told(events)))
    side.note("ends with a mark", events[-1]["object"]["metadata"].get("annotations"))
    wrong = await side.events(maps, {"sendInitialEvents": "true"}, until=lambda _: True)
    side.note("a list as a watch must say how old", wrong[0]["type"])
