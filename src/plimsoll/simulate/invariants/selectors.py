"""Label selectors on plain JSON, for the invariant checker alone.

The operator has its own implementation (`kube.types.selectors`). The checker judges which pods the operator selects, so it does not
share that code.
"""

from __future__ import annotations

from collections.abc import Mapping

from plimsoll.embedded_cluster.api.json_documents import Json


def selector_matches(selector: Json | None, labels: Mapping[str, str]) -> bool:
    """Whether a `metav1.LabelSelector` matches labels: an empty selector matches everything, a missing one nothing."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_requirement_matches(one, labels) for one in selector.get("matchExpressions") or ())


def _requirement_matches(requirement: Json, labels: Mapping[str, str]) -> bool:
    key, values = requirement["key"], requirement.get("values") or ()
    match requirement["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    raise ValueError(f'selector operator "{requirement["operator"]}"; expected In, NotIn, Exists or DoesNotExist')
