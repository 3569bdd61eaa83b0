"""Distributes pods over the domains of a topology spread."""

from __future__ import annotations

from collections.abc import Sequence


def water_fill(counts: Sequence[int], pods: int, limit: int, room: Sequence[int] | None = None) -> list[int]:
    """Return shares of up to `pods` that raise the lowest counts first, with no domain above `limit` or its `room`.

    Placed lowest level first, the shares never increase the skew between two domains beyond its present value or one.
    """
    rising = [domain for domain, count in enumerate(counts) if count < limit and (room is None or room[domain] > 0)]
    if room is not None:
        # Full domains stay behind. `limit` was computed for rising domains, so all stop there and it is recomputed.
        limit = min([limit, *[counts[domain] + room[domain] for domain in rising]])
        rising = [domain for domain in rising if counts[domain] < limit]
    rising.sort(key=counts.__getitem__)  # in the order in which the water reaches them
    wet, volume = 0, pods  # number of domains reached, and the water plus what they hold
    for domain in rising:
        count = counts[domain]
        if count * (wet + 1) > volume + count:
            break
        wet, volume = wet + 1, volume + count
    shares = [0] * len(counts)
    if not wet:
        return shares
    level = min(limit, volume // wet)
    over = volume - level * wet if level < limit else 0
    for place, domain in enumerate(sorted(rising[:wet])):
        shares[domain] = level - counts[domain] + (place < over)
    return shares
