"""What an order of deletion does to zones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence


def skew(pods_by_zone: Mapping[str, int]) -> int:
    """How many pods the fullest zone has more than the emptiest."""
    return max(pods_by_zone.values()) - min(pods_by_zone.values()) if pods_by_zone else 0


def skews(zones: Sequence[str]) -> list[int]:
    """The skew after each deletion, from none to all but the last, for the zones of the pods in the order of deletion."""
    left = Counter(zones)
    if not left:
        return []
    zones_with = Counter(left.values())  # how many zones have so many pods left
    fullest, emptiest = max(left.values()), min(left.values())
    course = [fullest - emptiest]
    for zone in zones[:-1]:
        zones_with[left[zone]] -= 1
        left[zone] -= 1
        zones_with[left[zone]] += 1
        emptiest = min(emptiest, left[zone])
        while not zones_with[fullest]:
            fullest -= 1
        course.append(fullest - emptiest)
    return course


def least_skews(pods_by_zone: Mapping[str, int]) -> list[int]:
    """The least skew that any order of deletion reaches after each deletion: always one from a fullest zone.

    One order reaches all of them. Where the fullest zones have n pods, the largest count can only fall below n after each of
    them has lost one, so whoever takes a pod from anywhere else first is behind from then on.
    """
    order: list[str] = []
    for count in range(max(pods_by_zone.values(), default=0), 0, -1):
        order += [zone for zone, pods in pods_by_zone.items() if pods >= count]
    return skews(order)


def imbalance(zones: Sequence[str]) -> int:
    """How much further zones drift apart than deletion alone would have to let them, at the worst point of a scale-down."""
    return max((real - least for real, least in zip(skews(zones), least_skews(Counter(zones)), strict=True)), default=0)
