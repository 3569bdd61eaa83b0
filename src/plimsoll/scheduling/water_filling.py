"""Counting how many pods each domain of a topology spread gets."""

from __future__ import annotations

from collections.abc import Sequence


def water_fill(counts: Sequence[int], pods: int, limit: int, room: Sequence[int] | None = None) -> list[int]:
    """Shares of up to `pods` that raise the lowest counts first, like water, with no domain above `limit` or, where it is given,
    beyond its room.

    Placed lowest level first, the shares never put one domain further above another than they were or than one.
    """
    rising = [domain for domain, count in enumerate(counts) if count < limit and (room is None or room[domain] > 0)]
    if room is not None:
        # What is full stays behind; `limit` was worked out for domains that rise, so all stop there and let it be worked out anew.
        limit = min([limit, *[counts[domain] + room[domain] for domain in rising]])
        rising = [domain for domain in rising if counts[domain] < limit]
    rising.sort(key=counts.__getitem__)  # as they are in turn reached by the water
    wet, volume = 0, pods  # how many domains the water has reached, and how much it and what they hold come to
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
