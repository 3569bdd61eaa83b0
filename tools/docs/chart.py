"""Chart files that are generated from the code: RBAC rules per controller, the webhook, CRDs and alerts.

The chart selects the rules of the enabled controllers; the code alone knows which permissions each controller uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plimsoll.config import Config
from plimsoll.controllers.allocation.crd import crd as weka_container_crd
from plimsoll.controllers.build import MAKERS, controllers
from plimsoll.controllers.nodegroups.crds import node_group_crds
from plimsoll.controllers.nodegroups.scale_down.utilization import READ_NODE_METRICS
from plimsoll.controllers.placement.webhook_configuration import service_client, webhooks
from plimsoll.dashboard.token_reviews import PERMISSIONS
from plimsoll.kube.types.resources import Resource
from plimsoll.manifests.monitoring import alert_rules
from plimsoll.manifests.objects import as_yaml
from plimsoll.manifests.rbac import (
    EVENTS,
    EVENTS_OF_CLUSTER_WIDE_OBJECTS,
    KWOK_NODES,
    KWOK_ORDERS,
    LIVE_READS,
    VPSIE_ORDERS,
    is_cluster_wide,
    rules_for,
    watch_permissions,
)
from plimsoll.runtime.decision import Permission
from plimsoll.runtime.operator import evicts, watched_by

_HEADER = "# Generated from the code by `make docs`: do not edit.\n"


def rbac_file() -> str:
    config = Config()
    by_name: dict[str, dict[str, Any]] = {}
    for name, make in MAKERS.items():
        controller = make(config)
        seen = watched_by([controller])
        elsewhere = [one for one in controller.permissions if one.namespace]
        by_name[name] = {
            "see": _split(watch_permissions(seen), seen),
            "do": _split([one for one in controller.permissions if not one.namespace], seen),
            "remembers": any(resource.watched_in for resource in seen),
            "evicts": evicts(controller),
        }
        if elsewhere:
            # The section of the configuration has the controller's name, and its `namespace` says where.
            (namespace,) = {one.namespace for one in elsewhere}
            own = {"section": name, "default": namespace, "rules": rules_for(elsewhere)}
            by_name[name]["inOwnNamespace"] = own
    found: dict[str, Any] = {
        "default": [controller.name for controller in controllers(config)],
        "events": {"rules": rules_for(EVENTS), "ofClusterWideObjects": EVENTS_OF_CLUSTER_WIDE_OBJECTS},
        "liveReads": rules_for(LIVE_READS),
        "nodeMetrics": rules_for([READ_NODE_METRICS]),
        "providers": {
            "default": list(config.providers.enabled),
            "kwok": {"nodes": rules_for(KWOK_NODES), "orders": rules_for(KWOK_ORDERS)},
            "vpsie": {"orders": rules_for(VPSIE_ORDERS)},
        },
        "dashboard": rules_for(PERMISSIONS),
        "controllers": by_name,
    }
    return _HEADER + as_yaml(found)


def _split(permissions: Sequence[Permission], seen: Sequence[Resource[Any]]) -> dict[str, Any]:
    return {
        "clusterWide": rules_for(one for one in permissions if is_cluster_wide(one, seen)),
        "namespaced": rules_for(one for one in permissions if not is_cluster_wide(one, seen)),
    }


def alerts_file() -> str:
    return _HEADER + as_yaml(alert_rules())


def webhook_file() -> str:
    """The webhook without the fields that the chart fills in: client, namespaces and timeout."""
    (hook,) = webhooks(service_client("NAMESPACE"), operator_namespace="NAMESPACE", timeout_seconds=2)
    for chosen in ("clientConfig", "namespaceSelector", "timeoutSeconds"):
        del hook[chosen]
    return _HEADER + as_yaml(hook)


def crds_file() -> str:
    return _HEADER + "---\n".join(as_yaml(one) for one in (weka_container_crd(), *node_group_crds()))
