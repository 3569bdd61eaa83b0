"""Which PodDisruptionBudgets cover a pod, found by the labels of the pod: a cluster has as many budgets as workloads."""

from __future__ import annotations

from plimsoll.kube.budgets import PodDisruptionBudget
from plimsoll.kube.resources import BUDGETS, BY_LABEL_ASKED_FOR, label_asked_for
from plimsoll.kube.selectors import selects
from plimsoll.kube.store import View
from plimsoll.kube.types import Pod


def budgets_of(pod: Pod, view: View) -> list[PodDisruptionBudget]:
    namespace, labels = pod.namespace, pod.labels
    keys = [label_asked_for(namespace), *(label_asked_for(namespace, *label) for label in labels.items())]
    budgets = view[BUDGETS]
    return [
        budget
        for key in keys
        for budget in budgets.by(BY_LABEL_ASKED_FOR, key)
        if selects(budget.spec.selector, labels)
    ]
