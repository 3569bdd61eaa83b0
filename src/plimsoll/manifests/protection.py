"""What keeps the operator itself from being disturbed: by drains, by neighbours on the network, by a lack of room."""

from __future__ import annotations

from plimsoll.config import Config
from plimsoll.manifests.dashboard import opens_dashboard
from plimsoll.manifests.objects import LABELS, NAME, Manifest, described, outside

# The highest value that is not reserved for Kubernetes itself: who mends a lack of room must not be its victim.
PRIORITY = 1_000_000_000


def priority_class(home: str) -> Manifest:
    description = "The operator that keeps the cluster's capacity right comes before the workloads it makes room for."
    return described(
        "scheduling.k8s.io/v1", "PriorityClass", "", outside(home),
        value=PRIORITY, globalDefault=False, description=description,
    )  # fmt: skip


def disruption_budget(namespace: str) -> Manifest:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}, "unhealthyPodEvictionPolicy": "AlwaysAllow"}
    return described("policy/v1", "PodDisruptionBudget", namespace, spec=spec)


def network_policy(config: Config, *, webhook: bool) -> Manifest:
    """Whoever scrapes, probes, looks or asks about a pod may come in, by those ports alone. What goes out is the API server, a
    provider and the leader, whose addresses no policy can know."""
    ports = [{"protocol": "TCP", "port": "web"}]
    if webhook:
        ports.append({"protocol": "TCP", "port": "webhook"})
    if opens_dashboard(config):
        ports.append({"protocol": "TCP", "port": "dashboard"})
    spec = {"podSelector": {"matchLabels": LABELS}, "policyTypes": ["Ingress"], "ingress": [{"ports": ports}]}
    return described("networking.k8s.io/v1", "NetworkPolicy", config.operator.namespace, NAME, spec=spec)
