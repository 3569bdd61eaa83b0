"""Calls to node providers: creates and deletes machines for the actuator, and maps provider errors to results."""

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
from plimsoll.runtime.outcome import ActionResult

# Time limit of one provider call. After it, whether the call took effect is unknown.
PROVIDER_SECONDS = 120.0


async def ask_provider(providers: Mapping[str, Provider], action: CreateMachine | DeleteMachine) -> ActionResult:
    provider = providers.get(action.provider)
    if provider is None:
        known = ", ".join(sorted(providers)) or "none"
        return _refused(
            action,
            "UnknownProvider",
            f'provider "{action.provider}" is not enabled; enabled: {known} (see providers.enabled)',
        )
    try:
        async with asyncio.timeout(PROVIDER_SECONDS):
            if isinstance(action, CreateMachine):
                machine = await provider.create(action.request)
                return ActionResult(action, "done", f"machine {machine.id}", machine=machine)
            await provider.delete(action.machine_id)
            return ActionResult(action, "done", f"machine {action.machine_id}")
    except (QuotaExceeded, OfferingUnavailable, Unauthorised) as error:
        return _refused(action, type(error).__name__, str(error))
    except Throttled as error:
        return ActionResult(action, "failed", f"{error} (retry after {error.retry_after_seconds:.0f} s)")
    except AmbiguousOutcome as error:
        return ActionResult(action, "unknown", str(error))
    except TimeoutError:
        return ActionResult(action, "unknown", f"{action.provider} did not answer within {PROVIDER_SECONDS:.0f} s")
    except ProviderError as error:
        return ActionResult(action, "failed", str(error))


def _refused(action: CreateMachine | DeleteMachine, code: str, message: str) -> ActionResult:
    return ActionResult(action, "refused", message, Blocker(code, message))
