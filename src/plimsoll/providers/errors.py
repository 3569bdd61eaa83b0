"""What can go wrong between us and a provider, as types: a node group decides by class, a person reads the message.

A message carries the provider's own words and never a credential.
"""

from __future__ import annotations


class ProviderError(Exception):
    """The provider did not do as asked. Nothing was changed, unless a class below says otherwise."""


class QuotaExceeded(ProviderError):
    """The account may have no more of it: another group of the same account fails likewise until someone raises the limit."""


class OfferingUnavailable(ProviderError):
    """This offering cannot be had in this datacenter, for now or at all: another offering or another group may be."""


class MachineNotFound(ProviderError):
    """There is no such machine. `delete` never raises it."""


class Unauthorised(ProviderError):
    """The provider does not accept who we are, or what we may do. Nothing helps but other credentials."""


class Throttled(ProviderError):
    """Too many requests. Nothing was changed; ask again after `retry_after_seconds`."""

    def __init__(self, message: str, retry_after_seconds: float) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(message)


class ProviderUnreachable(ProviderError):
    """There was no answer, or none that means anything, and nothing was changed: ask again later."""


class AmbiguousOutcome(ProviderError):
    """The request may or may not have been carried out. To ask again under the same key, or to delete again, is safe."""
