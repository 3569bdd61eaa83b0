"""Machines asked of a provider, and given back to it: what its answers mean for whoever decided that."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from plimsoll.providers.errors import (
    AmbiguousOutcome,
    OfferingUnavailable,
    ProviderError,
    QuotaExceeded,
    Throttled,
    Unauthorised,
)
from plimsoll.providers.protocol import Provider
from plimsoll.runtime.decision import Blocker, CreateMachine, DeleteMachine
from plimsoll.runtime.outcome import Result

# A provider that has not answered by then is not waited for: whether it did as asked is unknown.
PROVIDER_SECONDS = 120.0


async def ask_provider(providers: Mapping[str, Provider], action: CreateMachine | DeleteMachine) -> Result:
    provider = providers.get(action.provider)
    if provider is None:
        known = ", ".join(sorted(providers)) or "none"
        return _refused(
            action,
            "UnknownProvider",
            f'there is no provider "{action.provider}"; there is: {known} (see providers.enabled)',
        )
    try:
        async with asyncio.timeout(PROVIDER_SECONDS):
            if isinstance(action, CreateMachine):
                machine = await provider.create(action.request)
                return Result(action, "done", f"machine {machine.id}", machine=machine)
            await provider.delete(action.machine_id)
            return Result(action, "done", f"machine {action.machine_id}")
    except (QuotaExceeded, OfferingUnavailable, Unauthorised) as error:
        return _refused(action, type(error).__name__, str(error))
    except Throttled as error:
        return Result(action, "failed", f"{error} (again after {error.retry_after_seconds:.0f} s)")
    except AmbiguousOutcome as error:
        return Result(action, "unknown", str(error))
    except TimeoutError:
        return Result(action, "unknown", f"{action.provider} did not answer within {PROVIDER_SECONDS:.0f} s")
    except ProviderError as error:
        return Result(action, "failed", str(error))


def _refused(action: CreateMachine | DeleteMachine, code: str, message: str) -> Result:
    return Result(action, "refused", message, Blocker(code, message))
