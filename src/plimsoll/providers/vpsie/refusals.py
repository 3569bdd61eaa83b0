"""What VPSie's refusals mean to a node group. The API says it in words more than in codes."""

from __future__ import annotations

import re

from plimsoll.providers.errors import (
    MachineNotFound,
    OfferingUnavailable,
    ProviderError,
    QuotaExceeded,
    Throttled,
    Unauthorised,
)

# The limit is a hundred a minute: after a minute it has passed for certain.
THROTTLED_SECONDS = 60.0

_THROTTLED = re.compile(r"rate.?limit|too many requests|throttl", re.IGNORECASE)
_QUOTA = re.compile(
    r"quota|(limit|maximum)\b.*\b(reached|exceed|allowed)|(reached|exceed)\w*\b.*\b(limit|maximum)"
    r"|insufficient (funds|balance|credit)|not enough (funds|balance|credit)|payment required",
    re.IGNORECASE,
)
_UNAVAILABLE = re.compile(
    r"out of stock|sold out|no capacity|insufficient (capacity|resources)|not enough (capacity|resources)"
    r"|(offering|plan|package|size|datacenter|data center|resource|instance type)\w*\b.*"
    r"\b(not available|unavailable|not found|does not exist|invalid|disabled)",
    re.IGNORECASE,
)


def refusal(
    status: int, message: str, what: str, *, ordering: bool = False, retry_after_seconds: float | None = None
) -> ProviderError:
    """The error that a definite no stands for.

    `what` is what was asked, `message` VPSie's own words. Only an order can fail for quota or stock; elsewhere the same words
    ("resource not found") mean something else.
    """
    text = f"{what}: VPSie answered {status}: {message}"
    if status == 429 or (status < 500 and _THROTTLED.search(message)):
        seconds = THROTTLED_SECONDS if retry_after_seconds is None else retry_after_seconds
        return Throttled(text, seconds)
    if status == 401:
        return Unauthorised(text)
    if ordering and (status == 402 or _QUOTA.search(message)):
        return QuotaExceeded(text)
    if ordering and _UNAVAILABLE.search(message):
        return OfferingUnavailable(text)
    if status == 403:
        return Unauthorised(text)
    if status == 404:
        return MachineNotFound(text)
    return ProviderError(text)
