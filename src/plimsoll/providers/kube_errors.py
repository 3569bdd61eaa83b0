"""Turns errors of the Kubernetes API into provider errors, for providers that store objects in the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from plimsoll.kube.client.errors import Ambiguous, Forbidden, KubeError, TooManyRequests, Unauthorized, Unreachable
from plimsoll.providers.errors import AmbiguousOutcome, ProviderError, ProviderUnreachable, Throttled, Unauthorised


@contextmanager
def as_provider_errors() -> Iterator[None]:
    try:
        yield
    except Ambiguous as error:
        raise AmbiguousOutcome(str(error)) from error
    except Unreachable as error:
        raise ProviderUnreachable(str(error)) from error
    except (Unauthorized, Forbidden) as error:
        raise Unauthorised(str(error)) from error
    except TooManyRequests as error:
        raise Throttled(str(error), error.retry_after or 1.0) from error
    except KubeError as error:
        raise ProviderError(str(error)) from error
