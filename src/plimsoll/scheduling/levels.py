"""Counting how many pods each domain of a topology spread gets."""

from __future__ import annotations

from collections.abc import Sequence


def levelled(counts: Sequence[int], room: Sequence[int], pods: int, limit: int) -> list[int]:
    """Shares of up to `pods` that raise the lowest counts first, like water, with no domain above `limit` or beyond its room.

    Placed lowest level first, the shares never put one domain further above another than they were or than one.
    """
    shares = [0] * len(counts)
    rising = [d for d, free in enumerate(room) if free > 0 and counts[d] < limit]
    while pods > 0 and rising:
        level = min(counts[d] + shares[d] for d in rising)
        lowest = [d for d in rising if counts[d] + shares[d] == level]
        above = [counts[d] + shares[d] for d in rising if counts[d] + shares[d] > level]
        # Raise all of the lowest together: to the next higher domain, to the limit, until one is full, or until pods run out.
        steps = min([limit, *above]) - level
        steps = min(steps, *(room[d] - shares[d] for d in lowest), pods // len(lowest))
        if steps == 0:
            for d in lowest[:pods]:
                shares[d] += 1
            break
        for d in lowest:
            shares[d] += steps
        pods -= steps * len(lowest)
        full = [d for d in lowest if shares[d] == room[d]]
        if full:
            # What is full stays behind; `limit` was worked out for domains that rise, so stop and let it be worked out anew.
            break
        rising = [d for d in rising if counts[d] + shares[d] < limit]
    return shares
