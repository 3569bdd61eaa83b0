"""Budgets and workloads find each other by labels as if each were compared with all."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from plimsoll.kube.cache.pdb_index import budgets_of, workloads_under
from plimsoll.kube.cache.store import View
from plimsoll.kube.codec import convert
from plimsoll.kube.types.apps import Deployment, StatefulSet
from plimsoll.kube.types.resources import BUDGETS, DEPLOYMENTS, STATEFULSETS
from plimsoll.kube.types.selectors import selects
from tests import build

labels = st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"))
namespaces = st.sampled_from(["default", "other"])
expressions = st.builds(
    lambda key, operator: {"key": key, "operator": operator, "values": ["x"] if operator.endswith("In") else []},
    st.sampled_from("ab"),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
)
selectors = st.none() | st.builds(
    lambda equal, more: {"matchLabels": equal, "matchExpressions": more}, labels, st.lists(expressions, max_size=1)
)


def _workload(kind: Any, name: str, namespace: str, wanted: dict[str, str]) -> Any:
    spec = {"replicas": 1, "template": {"metadata": {"labels": wanted}}}
    return convert({"metadata": build.metadata(name, namespace), "spec": spec}, kind)


@given(st.lists(st.tuples(namespaces, selectors), max_size=6), st.lists(st.tuples(namespaces, labels), max_size=6))
def test_budgets_and_workloads_find_each_other(
    asked: list[tuple[str, dict[str, Any] | None]], given_labels: list[tuple[str, dict[str, str]]]
):
    budgets = [
        convert({"metadata": build.metadata(f"b{n}", namespace), "spec": {"selector": selector}}, BUDGETS.type)
        for n, (namespace, selector) in enumerate(asked)
    ]
    workloads = [
        _workload(StatefulSet if n % 2 else Deployment, f"w{n}", namespace, wanted)
        for n, (namespace, wanted) in enumerate(given_labels)
    ]
    view = View.of(
        {
            BUDGETS: budgets,
            DEPLOYMENTS: [one for one in workloads if isinstance(one, Deployment)],
            STATEFULSETS: [one for one in workloads if isinstance(one, StatefulSet)],
        }
    )
    for budget in budgets:
        under = [
            one.name
            for one in workloads
            if one.namespace == budget.namespace and selects(budget.spec.selector, one.spec.template.metadata.labels)
        ]
        assert sorted(one.name for one in workloads_under(budget, view)) == under
    for namespace, wanted in given_labels:
        pod = build.pod("p", namespace=namespace, labels=wanted)
        over = [b.name for b in budgets if b.namespace == namespace and selects(b.spec.selector, wanted)]
        assert sorted(budget.name for budget in budgets_of(pod, view)) == over
