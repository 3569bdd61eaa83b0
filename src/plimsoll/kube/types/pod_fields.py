"""Notices pod-spec fields that may constrain scheduling and that are not modelled. Called by `kube.codec` for each pod.

A newer Kubernetes may add a field that constrains scheduling. The types ignore unknown fields, so such a pod would look less
constrained than it is. The names of unknown fields are kept in `PodSpec.unknown_fields`, and the scheduling engine refuses to
place or move the pod (`UnknownConstraint`).

Reading the names takes a second pass over the JSON, about 45 % of the cost of decoding a pod. Pods of one controller are
created from one template, so only the first pod of each controller is checked, and pods without a controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from plimsoll.kube.types.core import Pod

# The fields of PodSpec in Kubernetes 1.37 that the engine reads, or that do not constrain scheduling. A test compares them
# with the OpenAPI document of the newest supported version. Before a name is added here: does it constrain scheduling? Then
# the engine has to model it or refuse it.
KNOWN_POD_SPEC_FIELDS = frozenset(
    {
        "activeDeadlineSeconds",
        "affinity",
        "automountServiceAccountToken",
        "containers",
        "dnsConfig",
        "dnsPolicy",
        "enableServiceLinks",
        "ephemeralContainers",
        "evictionResponders",
        "hostAliases",
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "hostUsers",
        "hostname",
        "hostnameOverride",
        "imagePullSecrets",
        "initContainers",
        "nodeName",
        "nodeSelector",
        "os",
        "overhead",
        "preemptionPolicy",
        "priority",
        "priorityClassName",
        "readinessGates",
        "resourceClaims",
        "resources",
        "restartPolicy",
        "runtimeClassName",
        "schedulerName",
        "schedulingGates",
        "securityContext",
        "serviceAccount",
        "serviceAccountName",
        "setHostnameAsFQDN",
        "shareProcessNamespace",
        "subdomain",
        "terminationGracePeriodSeconds",
        "tolerations",
        "topologySpreadConstraints",
        "volumes",
    }
)
# Gang scheduling: known, and not modelled. `workloadRef` is the field of 1.35 and 1.36.
NOT_MODELLED_FIELDS = frozenset({"schedulingGroup", "workloadRef"})
_OWN_FIELD = "_unknownFields"  # written by us where a typed pod is encoded again
_MAX_CONTROLLERS = 20_000

_KnownSpec: Any = msgspec.defstruct(
    "_KnownSpec",
    [(name, msgspec.Raw, msgspec.Raw(b"")) for name in sorted(KNOWN_POD_SPEC_FIELDS)],
    forbid_unknown_fields=True,
    gc=False,
)


def _by_place(spec: Any) -> dict[str, Any]:
    """By the place of pods in what is decoded (alone, in a watch event, in a list): a type that reads `spec` as given."""
    pod: Any = msgspec.defstruct("_Pod", [("spec", spec | None, None)], gc=False)
    return {
        "": pod,
        "object": msgspec.defstruct("_Event", [("object", pod | None, None)], gc=False),
        "items": msgspec.defstruct("_Page", [("items", tuple[pod, ...] | None, None)], gc=False),
    }


_CHECKS = _by_place(_KnownSpec)
_NAMES = _by_place(dict[str, msgspec.Raw])


class PodDecoder:
    """A decoder of pods, of watch events or of lists of pods that also notices unknown fields."""

    def __init__(self, inner: msgspec.json.Decoder[Any], field: str) -> None:
        """field: where the pods are in a decoded value: "" (it is a pod), "object" or "items"."""
        self._inner = inner
        self._field = field
        self._known = msgspec.json.Decoder(_CHECKS[field])
        self._names = msgspec.json.Decoder(_NAMES[field])
        self._checked: dict[str, None] = {}  # UIDs of controllers whose pods have only known fields

    def decode(self, data: bytes | memoryview | msgspec.Raw) -> Any:
        value = self._inner.decode(data)
        pods = self._pods(value)
        for pod in pods:
            if not self._is_checked(pod):
                break
        else:
            return value
        try:
            self._known.decode(data)
        except msgspec.ValidationError:
            self._note(data, pods)
            return value
        for pod in pods:
            if (owner := pod.metadata.controller) is not None:
                if len(self._checked) >= _MAX_CONTROLLERS:
                    self._checked.clear()
                self._checked[owner.uid] = None
        return value

    def _pods(self, value: Any) -> tuple[Pod, ...]:
        if not self._field:
            return (value,)
        found = getattr(value, self._field)
        if self._field == "items":
            return found or ()
        return (found,) if isinstance(found, Pod) else ()

    def _is_checked(self, pod: Pod) -> bool:
        for owner in pod.metadata.owner_references:  # hot: every decoded pod passes here
            if owner.controller:
                return owner.uid in self._checked
        return False

    def _note(self, data: bytes | memoryview | msgspec.Raw, pods: Iterable[Pod]) -> None:
        found = self._names.decode(data)
        if self._field:
            found = getattr(found, self._field)
        for pod, one in zip(pods, found if isinstance(found, tuple) else (found,), strict=True):
            note_unknown_fields(pod, one.spec or {})


def note_unknown_fields(pod: Pod, spec: Mapping[str, Any]) -> None:
    """Record the names of unknown fields in a pod that was just decoded and that nobody else has seen."""
    unknown = spec.keys() - KNOWN_POD_SPEC_FIELDS - {_OWN_FIELD}
    if unknown:
        force_setattr(pod.spec, "unknown_fields", tuple(sorted(unknown)))
