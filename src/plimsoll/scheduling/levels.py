"""Counting how many pods each domain of a topology spread gets."""

from __future__ import annotations

from collections.abc import Sequence


def levelled(counts: Sequence[int], pods: int, limit: int, room: Sequence[int] | None = None) -> list[int]:
    """Shares of up to `pods` that raise the lowest counts first, like water, with no domain above `limit` or, where it is given,
    beyond its room.

    Placed lowest level first, the shares never put one domain further above another than they were or than one.
    """
    shares = [0] * len(counts)
    rising = [d for d, count in enumerate(counts) if count < limit and (room is None or room[d] > 0)]
    while pods > 0 and rising:
        heights = [counts[d] + shares[d] for d in rising]
        level = min(heights)
        lowest = [d for d, height in zip(rising, heights, strict=True) if height == level]
        # Raise all of the lowest together: to the next higher domain, to the limit, until one is full, or until pods run out.
        steps = min([limit, *[height for height in heights if height > level]]) - level
        steps = min(steps, pods // len(lowest))
        if room is not None:
            steps = min(steps, *[room[d] - shares[d] for d in lowest])
        if steps == 0:
            for d in lowest[:pods]:
                shares[d] += 1
            break
        for d in lowest:
            shares[d] += steps
        pods -= steps * len(lowest)
        if room is not None and any(shares[d] == room[d] for d in lowest):
            # What is full stays behind; `limit` was worked out for domains that rise, so stop and let it be worked out anew.
            break
        if level + steps >= limit:
            rising = [d for d in rising if counts[d] + shares[d] < limit]
    return shares
