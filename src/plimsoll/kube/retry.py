"""When a failed call is made again: only where a repeat can do no harm, never at once, and not for ever."""

from __future__ import annotations

import random
from enum import Enum

from plimsoll.kube.backoff import Backoff
from plimsoll.kube.errors import (
    Ambiguous,
    ApiError,
    CredentialsError,
    KubeError,
    ServerError,
    TooManyRequests,
    Unreachable,
)

ATTEMPTS = 4
_BACKOFF_SECONDS = (0.2, 5.0)
# What a server that sheds load without saying for how long is given; kube-apiserver itself says 1.
_THROTTLED_SECONDS = 1.0


class Repeat(Enum):
    """What a second call would do if the first had been applied after all."""

    READ = "nothing: it was a read"
    GUARDED = "nothing: a name, a UID or a resourceVersion lets the server refuse it, and us compare"
    UNGUARDED = "perhaps harm"


def backoff(rng: random.Random) -> Backoff:
    return Backoff(*_BACKOFF_SECONDS, rng)


def leaves_doubt(error: KubeError) -> bool:
    """May the write that failed so have been applied?"""
    if isinstance(error, Ambiguous):
        return True
    if not isinstance(error, ServerError):
        return False
    if error.status == 500:
        # InternalError is said before anything is stored (a webhook that fails, say). The empty reason and ServerTimeout are
        # how errors of etcd come through, among them writes that timed out half-way. The one exception has no reason either.
        return error.reason != "InternalError" and "more than one PodDisruptionBudget" not in error.message
    # 503 is definite if the API server itself says so. Else it is, like 502 and 504, someone who lost the reply.
    return not (error.status == 503 and error.reason == "ServiceUnavailable")


def seconds_before_repeat(error: KubeError, repeat: Repeat, delays: Backoff, rng: random.Random) -> float | None:
    """How long to wait before the call is made again, or None where it must not or need not be."""
    if isinstance(error, CredentialsError):
        return None  # a file or a program that a person has to mend
    if isinstance(error, Unreachable):
        return delays.next()
    if isinstance(error, TooManyRequests):
        if error.disruption_budget:
            return None  # an answer, not a lack of time: the one who decides must hear it
        asked = _THROTTLED_SECONDS if error.retry_after is None else error.retry_after
        return max(asked, delays.next()) * rng.uniform(1.0, 1.25)  # never earlier than asked, and not all at once
    doubtful = leaves_doubt(error)
    if doubtful and repeat is Repeat.UNGUARDED:
        return None
    passing = doubtful or (isinstance(error, ServerError) and (repeat is Repeat.READ or error.status == 503))
    if not passing:
        return None
    asked = error.retry_after if isinstance(error, ApiError) and error.retry_after else 0.0
    return max(asked, delays.next())
