"""A machine is a file in a directory, named after its key: making it twice is impossible, and removing it twice harmless."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from plimsoll.kube.types.quantity import parse_quantity
from plimsoll.providers.errors import OfferingUnavailable, ProviderUnreachable
from plimsoll.providers.protocol import Capabilities, Machine, MachineRequest, Offering, Scope
from plimsoll.providers.registry import Setup
from plimsoll.runtime.clock import Clock

SIZE = "rack"


def files_provider(setup: Setup) -> FilesProvider:
    settings = setup.settings
    missing = [name for name in ("directory", "cpu", "memory") if name not in settings]
    if missing:
        raise ValueError(f"providers.settings lacks {', '.join(f'files.{name}=…' for name in missing)}")
    capacity = {name: parse_quantity(settings[name]) for name in ("cpu", "memory")}
    return FilesProvider(Path(settings["directory"]), Offering(SIZE, capacity=capacity), setup.clock)


class FilesProvider:
    name = "files"

    def __init__(self, directory: Path, offering: Offering, clock: Clock) -> None:
        self._directory = directory
        self._offering = offering
        self._clock = clock

    async def capabilities(self) -> Capabilities:
        return Capabilities(idempotent_create=True, lists_by_group=True, makes_nodes=False)

    async def offerings(self, datacenter: str) -> Sequence[Offering]:  # noqa: ARG002 - there is but one rack
        return [self._offering]

    async def list(self, scope: Scope) -> Sequence[Machine]:
        try:
            machines = [_machine(file) for file in self._directory.iterdir() if file.suffix == ".json"]
        except OSError as error:
            # Whole, or an error: an unreadable directory is not an empty one.
            raise ProviderUnreachable(f"{self._directory} cannot be read: {error.strerror}") from error
        return [machine for machine in machines if machine is not None and machine.within(scope)]

    async def create(self, request: MachineRequest) -> Machine:
        if request.offering != SIZE:
            raise OfferingUnavailable(f'there is no offering "{request.offering}", only "{SIZE}"')
        machine = Machine(
            request.key, request.name, request.key, request.offering, request.datacenter, request.group,
            created_at=self._clock.now(), resource_identifier=request.resource_identifier,
        )  # fmt: skip
        file = self._directory / f"{request.key}.json"
        draft = self._directory / f".{request.key}.{os.getpid()}"
        try:
            draft.write_bytes(msgspec.json.encode(machine))
            os.link(draft, file)  # whole at once, and never over one that is there
        except FileExistsError:
            return _machine(file) or machine
        except OSError as error:
            raise ProviderUnreachable(f"{file} cannot be written: {error.strerror}") from error
        finally:
            draft.unlink(missing_ok=True)
        return machine

    async def delete(self, machine_id: str) -> None:
        try:
            (self._directory / f"{machine_id}.json").unlink(missing_ok=True)
        except OSError as error:
            raise ProviderUnreachable(f"{machine_id} cannot be removed: {error.strerror}") from error

    async def close(self) -> None:
        """Nothing runs in the background."""


def _machine(file: Path) -> Machine | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Machine)
    except FileNotFoundError:
        return None  # removed since it was listed
