"""The API server answers every request, stores nothing that its controllers could not read, and keeps running."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.clocks import run_virtually
from tests.embedded_cluster.scene import MERGE, ask, cluster, deployment, ready_pods

VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=5), st.just("1Gi"), st.just([]), st.just({}),
    st.lists(st.one_of(st.none(), st.integers(), st.text(max_size=3), st.just({})), max_size=2),
    st.dictionaries(st.text(max_size=5), st.one_of(st.none(), st.integers(), st.text(max_size=3)), max_size=2),
)  # fmt: skip
POD = {
    "metadata": {"name": "x", "labels": {"a": "b"}, "annotations": {"a": "b"}, "ownerReferences": [], "finalizers": []},
    "spec": {
        "containers": [
            {"name": "m", "image": "x", "resources": {"requests": {"cpu": "1"}}, "ports": [{"containerPort": 1}]}
        ],
        "tolerations": [{"key": "a"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
        "nodeSelector": {},
    },
    "status": {"conditions": [], "phase": "Running"},
}
NODE = {"metadata": {"name": "x"}, "spec": {"taints": []}, "status": {"allocatable": {"cpu": "1"}, "conditions": []}}
BUDGET = {"metadata": {"name": "x"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}}
TARGETS = {
    "/api/v1/namespaces/default/pods": POD,
    "/api/v1/nodes": NODE,
    "/apis/apps/v1/namespaces/default/deployments": {**deployment("x"), "status": {"conditions": []}},
    "/apis/apps/v1/namespaces/default/statefulsets": deployment("x"),
    "/apis/apps/v1/namespaces/default/daemonsets": deployment("x"),
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets": BUDGET,
}


def paths(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    return [path, *(found for key, value in inner for found in paths(value, (*path, key)))]


@st.composite
def nonsense(draw: st.DrawFn) -> tuple[str, str, Any]:
    """A good object in which a value or two, anywhere, is another."""
    where = draw(st.sampled_from(sorted(TARGETS)))
    document: Any = copy.deepcopy(TARGETS[where])
    for _ in range(draw(st.integers(1, 2))):
        *parents, last = draw(st.sampled_from([path for path in paths(document) if path]))
        target = document
        for key in parents:
            target = target[key]
        target[last] = draw(VALUES)
    return draw(st.sampled_from(["POST", "PATCH", "PUT"])), where, document


@settings(max_examples=25)
@example(
    [("PATCH", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", {"metadata": {"name": "x"}, "spec": None})]
)
@example(
    [("PATCH", "/api/v1/namespaces/default/pods", {"spec": {"tolerations": [{"key": None, "operator": "Exists"}]}})]
)
@given(requests=st.lists(nonsense(), min_size=3, max_size=12))
def test_nonsense_is_answered_and_changes_nothing_for_others(requests: list[tuple[str, str, Any]]) -> None:
    run_virtually(_live(requests))


async def _live(requests: list[tuple[str, str, Any]]) -> None:
    async with cluster("1 zone=a cpu=64") as made:
        for where, good in TARGETS.items():
            await ask(made, "POST", where, json.dumps(good).encode())
        for method, where, document in requests:
            path = where if method == "POST" else f"{where}/x"
            form = MERGE if method == "PATCH" else "application/json"
            answer = await ask(made, method, path, json.dumps(document).encode(), form)
            assert answer.status < 500, answer.body
            await asyncio.sleep(10)
        await made.create(kinds.DEPLOYMENTS, deployment("web", replicas=2))
        await asyncio.sleep(60)
        assert len(ready_pods(made)) == 2, "the cluster still works"
