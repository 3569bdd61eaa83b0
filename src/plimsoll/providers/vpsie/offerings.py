"""Turns the rows of VPSie's offerings into `Offering`s."""

from __future__ import annotations

from collections.abc import Sequence

from plimsoll.kube.types.quantity import Quantity, parse_quantity
from plimsoll.providers.errors import ProviderUnreachable
from plimsoll.providers.protocol import Offering
from plimsoll.providers.vpsie.replies import OfferingRow

_HOURS_PER_MONTH = 730
_KUBELET_PODS = 110  # the kubelet's own default


def offerings_from_rows(rows: Sequence[OfferingRow]) -> tuple[Offering, ...]:
    """VPSie lists an offering once per datacenter."""
    by_id: dict[str, list[OfferingRow]] = {}
    for row in rows:
        if row.id is None:
            raise ProviderUnreachable("an offering of VPSie has no id")
        by_id.setdefault(str(row.id), []).append(row)
    found = []
    for name, same in by_id.items():
        sold = [row for row in same if row.available is not False]
        first = (sold or same)[0]
        everywhere = any(row.datacenter_id in (None, "") for row in sold)
        hourly = first.hourly_price if first.hourly_price is not None else (first.price or 0.0) / _HOURS_PER_MONTH
        found.append(
            Offering(
                name,
                first.name or name,
                _capacity(first),
                hourly,
                {"node.kubernetes.io/instance-type": name},
                () if everywhere else tuple(str(row.datacenter_id) for row in (sold or same) if row.datacenter_id),
                available=bool(sold),
            )
        )
    return tuple(found)


def _capacity(row: OfferingRow) -> dict[str, Quantity]:
    amounts = {
        "cpu": f"{row.cpu:g}" if row.cpu else "",
        "memory": f"{row.ram:.0f}Mi" if row.ram else "",
        "ephemeral-storage": f"{row.disk:.0f}G" if row.disk else "",
        "pods": str(_KUBELET_PODS),
    }
    return {name: parse_quantity(text) for name, text in amounts.items() if text}
