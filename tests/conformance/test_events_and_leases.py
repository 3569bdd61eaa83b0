"""Events in both their forms, and leases as leader election uses them."""

from __future__ import annotations

from tests.conformance.sides import MERGE, Side, same

_MOMENT = "2026-01-01T00:00:00.000000Z"


async def test_events_and_leases(both: tuple[Side, Side]) -> None:
    await same(events_and_leases, both)


async def events_and_leases(side: Side) -> None:
    event = {
        "metadata": {"name": "it-happened"},
        "eventTime": _MOMENT,
        "reportingController": "example.org/test",
        "reportingInstance": "one",
        "action": "Testing",
        "reason": "Happened",
        "regarding": {"apiVersion": "v1", "kind": "ConfigMap", "name": "one", "namespace": side.namespace},
        "note": "something happened",
        "type": "Normal",
    }
    newer, older = side.path("events", group="events.k8s.io/v1"), side.path("events")
    await side.tell("made", "POST", newer, event, show=("note", "regarding.name", "reportingController", "apiVersion"))
    await side.tell(
        "in its other form",
        "GET",
        f"{older}/it-happened",
        show=("message", "involvedObject.name", "reportingComponent"),
    )
    series = {"series": {"count": 2, "lastObservedTime": _MOMENT}}
    await side.tell("again", "PATCH", f"{newer}/it-happened", series, form=MERGE, show=("series", "note"))
    for selector in ("involvedObject.name=one", "involvedObject.name=two", "reason=Happened"):
        _, listed = await side.ask("GET", older, params={"fieldSelector": selector})
        side.note(selector, [one["metadata"]["name"] for one in listed["items"]])
    long = {**event, "metadata": {"name": "too-long"}, "note": "x" * 1025}
    code, answer = await side.ask("POST", newer, long)
    side.note("too long", [code, answer["reason"]])

    leases = side.path("leases", group="coordination.k8s.io/v1")
    spec = {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": _MOMENT,
        "renewTime": _MOMENT,
        "leaseTransitions": 0,
    }
    made = await side.tell("a lease", "POST", leases, {"metadata": {"name": "mine"}, "spec": spec}, show=("spec",))
    version = made["metadata"]["resourceVersion"]
    taken = {"metadata": {"resourceVersion": version}, "spec": {"holderIdentity": "other", "leaseTransitions": 1}}
    await side.tell(
        "taken", "PATCH", f"{leases}/mine", taken, form=MERGE, show=("spec.holderIdentity", "spec.leaseTransitions")
    )
    await side.tell("taken by two", "PATCH", f"{leases}/mine", taken, form=MERGE)
    await side.tell(
        "a PUT without a revision",
        "PUT",
        f"{leases}/mine",
        {"metadata": {"name": "mine"}, "spec": spec},
        show=("spec.holderIdentity",),
    )
