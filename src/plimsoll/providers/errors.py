"""Errors of providers. Node groups decide by the type, people read the message.

A message contains the provider's own words, and never a credential.
"""

from __future__ import annotations


class ProviderError(Exception):
    """The provider did not carry out the request. Nothing was changed, unless a subclass says otherwise."""


class QuotaExceeded(ProviderError):
    """The account's quota is used up: every group of the account fails until a person raises the quota."""


class OfferingUnavailable(ProviderError):
    """The offering is not available in this datacenter now; other offerings may be."""


class MachineNotFound(ProviderError):
    """The machine does not exist. `delete` never raises this."""


class Unauthorised(ProviderError):
    """The provider rejects the credentials or their permissions. A person has to replace them."""


class Throttled(ProviderError):
    """Too many requests. Nothing was changed; retry after `retry_after_seconds`."""

    def __init__(self, message: str, retry_after_seconds: float) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(message)


class ProviderUnreachable(ProviderError):
    """There was no valid reply, and nothing was changed: retry later."""


class AmbiguousOutcome(ProviderError):
    """The request may or may not have been carried out. Retrying under the same key, or deleting again, is safe."""
