"""Custom kinds: defaults, pruning, schemas, a status of their own."""

from __future__ import annotations

from typing import Any

from tests.conformance.sides import MERGE, Json, Side, same

_SCHEMA: Json = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 9},
                "mode": {"type": "string", "enum": ["fast", "safe"], "default": "safe"},
                "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
                "port": {"x-kubernetes-int-or-string": True},
                "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "more": {"type": "object", "additionalProperties": {"type": "string"}},
                "parts": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["id"],
                        "properties": {"id": {"type": "string"}, "weight": {"type": "integer", "default": 1}},
                    },
                },
            },
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}, "count": {"type": "integer"}}},
    },
}


def _definition(side: Side) -> Json:
    group = f"{side.namespace}.example.org"
    names = {"plural": "gadgets", "kind": "Gadget", "singular": "gadget", "shortNames": ["gd"]}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _SCHEMA},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
    }
    spec = {"group": group, "names": names, "scope": "Namespaced", "versions": [version]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gadgets.{group}"},
        "spec": spec,
    }


async def test_custom_kinds(both: tuple[Side, Side]) -> None:
    await same(custom_kinds, both)


async def custom_kinds(side: Side) -> None:
    definition = _definition(side)
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    group = definition["spec"]["group"]
    await side.ask("POST", definitions, definition)
    name = definition["metadata"]["name"]

    def is_established(found: Json) -> bool:
        conditions = (found.get("status") or {}).get("conditions") or ()
        return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)

    await side.until(f"{definitions}/{name}", is_established, "the kind is served")
    gadgets = side.path("gadgets", group=f"{group}/v1")
    await side.until(gadgets, lambda found: found["kind"] == "GadgetList", "the kind is listed")

    def gadget(called: str, **spec: Any) -> Json:
        return {"apiVersion": f"{group}/v1", "kind": "Gadget", "metadata": {"name": called}, "spec": spec}

    show = ("spec", "status", "metadata.generation")
    whole = {
        **gadget("one", size=3, junk=1, open={"a": 1}, parts=[{"id": "x"}], port="http"),
        "status": {"phase": "Given"},
    }
    made = await side.tell("made", "POST", gadgets, whole, show=show)
    wrong: dict[str, Json] = {
        "too small": {"size": 0},
        "too large": {"size": 10},
        "of another type": {"size": "three"},
        "not one of them": {"size": 1, "mode": "slow"},
        "without what is needed": {},
        "not by the pattern": {"size": 1, "name": "ABC"},
        "part without what is needed": {"size": 1, "parts": [{"weight": 2}]},
    }
    for what, spec in wrong.items():
        code, answer = await side.ask("POST", gadgets, gadget("bad", **spec))
        causes = [[one.get("reason"), one.get("field")] for one in answer["details"]["causes"]]
        side.note(what, [code, answer["reason"], causes])
    path = f"{gadgets}/one"
    await side.tell("another spec", "PATCH", path, {"spec": {"size": 4}}, form=MERGE, show=show)
    await side.tell(
        "a status where it does not belong", "PATCH", path, {"status": {"phase": "No"}}, form=MERGE, show=show
    )
    status = {"status": {"phase": "Yes", "other": 1}, "spec": {"size": 9}}
    await side.tell("a status where it belongs", "PATCH", f"{path}/status", status, form=MERGE, show=show)
    stale = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "status": {"count": 1}}
    await side.tell("a stale status", "PATCH", f"{path}/status", stale, form=MERGE)
    other = {"metadata": {"uid": "00000000-0000-4000-8000-000000000000"}, "status": {"count": 1}}
    await side.tell("a status for another object", "PATCH", f"{path}/status", other, form=MERGE, show=show)
    code, answer = await side.ask("PUT", path, gadget("one", size=5))
    side.note("a PUT without a revision", [code, answer["reason"]])
    await side.tell("gone", "DELETE", path)
    await side.ask("DELETE", f"{definitions}/{name}")
    await side.gone(f"{definitions}/{name}")
