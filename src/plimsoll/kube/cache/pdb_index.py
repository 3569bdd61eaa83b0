"""Which PodDisruptionBudgets cover a pod, and which workloads a budget is about.

Found by labels: a cluster has as many budgets as workloads, and to walk over all of one for each of the other adds up.
"""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.kube.cache.store import View
from plimsoll.kube.types.apps import Deployment, StatefulSet
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.meta import Labels
from plimsoll.kube.types.policy import PodDisruptionBudget
from plimsoll.kube.types.resources import (
    BUDGETS,
    BY_SELECTOR_LABEL,
    BY_TEMPLATE_LABEL,
    DEPLOYMENTS,
    STATEFULSETS,
    label_in,
    selector_label,
)
from plimsoll.kube.types.selectors import selects


def budgets_of(pod: Pod, view: View) -> list[PodDisruptionBudget]:
    namespace, labels = pod.namespace, pod.labels
    keys = [label_in(namespace), *(label_in(namespace, key, value) for key, value in labels.items())]
    budgets = view[BUDGETS]
    return [
        budget for key in keys for budget in budgets.by(BY_SELECTOR_LABEL, key) if selects(budget.spec.selector, labels)
    ]


def workloads_under(budget: PodDisruptionBudget, view: View) -> Iterator[Deployment | StatefulSet]:
    """Those whose new pods the budget would cover."""
    selector = budget.spec.selector
    for key in selector_label(budget):
        yield from (one for one in view[DEPLOYMENTS].by(BY_TEMPLATE_LABEL, key) if selects(selector, _labels(one)))
        yield from (one for one in view[STATEFULSETS].by(BY_TEMPLATE_LABEL, key) if selects(selector, _labels(one)))


def _labels(workload: Deployment | StatefulSet) -> Labels:
    return workload.spec.template.metadata.labels
