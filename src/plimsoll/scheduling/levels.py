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
        heights = [counts[d] + shares[d] for d in rising]
        level = min(heights)
        lowest = [d for d, height in zip(rising, heights, strict=True) if height == level]
        # Raise all of the lowest together: to the next higher domain, to the limit, until one is full, or until pods run out.
        steps = min([limit, *(height for height in heights if height > level)]) - level
        steps = min([steps, pods // len(lowest), *[room[d] - shares[d] for d in lowest]])
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
