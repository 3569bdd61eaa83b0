"""The settings of deletion cost: a Deployment's annotations and the operator's configuration."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

from msgspec import Struct

from plimsoll.kube.labels import ZONE

PREFIX = "pod-deletion-cost.lablabs.io/"
ENABLED = PREFIX + "enabled"
SPREAD_BY = PREFIX + "spread-by"
TYPE = PREFIX + "type"

DEFAULT_SPREAD_BY = ZONE
DEFAULT_TYPE = "zone"

HIGHEST_COST = 2**31 - 1  # Kubernetes reads the annotation as an int32
LOWEST_COST = -(2**31)

# A label key: an optional DNS name and a slash, then at most 63 letters, digits, -, _ and . (the API server's own rule).
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class DeletionCostSettings(Struct, frozen=True):
    """The operator's configuration, for all workloads."""

    adopt_existing: bool = False
    ceiling: int = HIGHEST_COST
    algorithms: tuple[str, ...] = ()  # the enabled types; empty: all that are installed
    max_rewrites_per_minute: int = 60  # per workload


class WorkloadSettings(Struct, frozen=True):
    """The annotations of a Deployment."""

    enabled: bool = False
    type: str = DEFAULT_TYPE
    spread_by: str = DEFAULT_SPREAD_BY


class InvalidSettingsError(ValueError):
    """Invalid annotations; `reasons` has all problems, not only the first."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


def asks_for_values(annotations: Mapping[str, str]) -> bool:
    """Whether `enabled` is anything but absent or "false"; cheap, because it runs for every pod that changes."""
    return annotations.get(ENABLED, "false") != "false"


def read_settings(
    annotations: Mapping[str, str],
    types: Collection[str],
    default_type: Callable[[], str] = lambda: DEFAULT_TYPE,
    implied_type: Callable[[], str | None] = lambda: None,
) -> WorkloadSettings:
    """The settings of a Deployment, with `default_type()` if it names no type.

    Without the annotation `enabled`, `implied_type()` is the type that applies by itself, or None. The other annotations are
    not validated unless it is enabled. Raises InvalidSettingsError.
    """
    if not asks_for_values(annotations):
        implied = implied_type() if ENABLED not in annotations else None
        return WorkloadSettings(enabled=True, type=implied) if implied is not None else WorkloadSettings()
    reasons = []
    if annotations[ENABLED] != "true":
        reasons.append(f'{ENABLED} is "{annotations[ENABLED]}": write "true" or "false"')
    kind = annotations.get(TYPE) or default_type()  # an empty type means the default
    if kind not in types:
        reasons.append(f'{TYPE} is "{kind}", which is not an available type')
    spread_by = annotations.get(SPREAD_BY, DEFAULT_SPREAD_BY)
    if not is_label_key(spread_by):
        reasons.append(
            f'{SPREAD_BY} is "{spread_by}", which is not a label key: write a name such as rack or example.com/rack'
        )
    if reasons:
        raise InvalidSettingsError(tuple(reasons))
    return WorkloadSettings(enabled=True, type=kind, spread_by=spread_by)


def is_label_key(text: str) -> bool:
    prefix, slash, name = text.rpartition("/")
    if slash and not (len(prefix) <= 253 and _PREFIX.fullmatch(prefix)):
        return False
    return _NAME.fullmatch(name) is not None
