"""Credentials from an exec plug-in (`client.authentication.k8s.io`), as EKS, GKE, AKS and OIDC logins use."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from plimsoll.kube.client.errors import CredentialsError
from plimsoll.kube.client.kubeconfig import ExecConfig, KubeconfigEntry
from plimsoll.kube.client.tls import Certificate
from plimsoll.runtime.clock import Clock

_API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")

_TIMEOUT_SECONDS = 60.0  # a plug-in that waits for a dead network must not block for ever
_LOGIN_TIMEOUT_SECONDS = 600.0  # on a terminal, a person may need time for a second factor
_STDERR_TAIL_CHARACTERS = 500

# Credentials are renewed shortly before they expire, so that none expires on its way to the server.
_RENEW_BEFORE_END = timedelta(seconds=10)
# The plug-in runs at most this often, even if its credentials are short-lived, refused or missing.
_SECONDS_BETWEEN_RUNS = 5.0


class _CredentialStatus(msgspec.Struct, frozen=True, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None

    def __repr__(self) -> str:
        return "ExecCredentialStatus(…)"


class _Credential(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    status: _CredentialStatus | None = None


class ExecPlugin:
    """Runs the plug-in if there are no credentials yet, if they expire, or if the server refused them."""

    def __init__(
        self,
        written: KubeconfigEntry[Any],
        config: ExecConfig,
        cluster: Mapping[str, Any] | None,
        env: Mapping[str, str],
        clock: Clock,
    ) -> None:
        self._where = f"{written.where}: exec"
        self._config = config
        self._cluster = cluster  # set if `provideClusterInfo` is true
        self._env = env
        self._clock = clock
        self._command = _resolve(config.command, written.file.parent, env)
        self._renewal: asyncio.Task[None] | None = None
        self._status: _CredentialStatus | None = None
        self._renew_at: datetime | None = None
        self._ends_at: datetime | None = None  # when they expire, unless the server refuses them earlier
        self._failure: CredentialsError | None = None
        self._ran_at: float | None = None
        if not config.command:
            raise CredentialsError(f"{self._where}: command is empty; expected a program")
        if config.api_version not in _API_VERSIONS:
            raise CredentialsError(
                f"{self._where}: apiVersion is {config.api_version!r}; expected one of: {', '.join(_API_VERSIONS)}"
            )
        if config.api_version == _API_VERSIONS[0] and not config.interactive_mode:
            raise CredentialsError(
                f"{self._where}: interactiveMode is not set; expected one of: {', '.join(_INTERACTIVE_MODES)} "
                f"(required by {config.api_version})"
            )
        if config.interactive_mode and config.interactive_mode not in _INTERACTIVE_MODES:
            raise CredentialsError(
                f"{self._where}: interactiveMode is {config.interactive_mode!r}; "
                f"expected one of: {', '.join(_INTERACTIVE_MODES)}"
            )

    async def headers(self) -> Mapping[str, str]:
        # All callers share one run, and a caller that gives up does not cancel it: a lease call waits only five seconds.
        if self._renewal is None and self._due() and not self._just_ran():
            self._renewal = asyncio.create_task(self._renew(), name="credentials")
        if self._renewal is not None and not self._good():
            await asyncio.shield(self._renewal)
        if self._failure and not self._good():
            raise self._failure
        return {"Authorization": f"Bearer {self._status.token}"} if self._status and self._status.token else {}

    def certificate(self) -> Certificate | None:
        """The certificate of the last run. Call `headers` first."""
        if self._status is None or not self._status.client_key_data:
            return None
        return Certificate(self._status.client_certificate_data.encode(), self._status.client_key_data.encode())

    def refused(self) -> bool:
        self._renew_at = self._ends_at = self._clock.now()
        return True

    def _due(self) -> bool:
        return self._status is None or (self._renew_at is not None and self._clock.now() >= self._renew_at)

    def _just_ran(self) -> bool:
        return self._ran_at is not None and self._clock.monotonic() - self._ran_at < _SECONDS_BETWEEN_RUNS

    def _good(self) -> bool:
        return self._status is not None and (self._ends_at is None or self._clock.now() < self._ends_at)

    async def _renew(self) -> None:
        try:
            self._status = self._parse(await self._run())
        except CredentialsError as error:
            self._failure = error
            if not self._good():
                self._status = None
        else:
            self._failure = None
            self._ends_at = end = self._status.expiration_timestamp
            self._renew_at = end - _RENEW_BEFORE_END if end else None
        finally:
            self._ran_at = self._clock.monotonic()
            self._renewal = None

    async def _run(self) -> bytes:
        interactive = self._interactive()
        info: dict[str, Any] = {"interactive": interactive}
        if self._cluster is not None:
            info["cluster"] = self._cluster
        request = {"apiVersion": self._config.api_version, "kind": "ExecCredential", "spec": info}
        env = {
            **self._env,
            **{variable.name: variable.value for variable in self._config.env or ()},
            "KUBERNETES_EXEC_INFO": json.dumps(request, default=str),
        }
        try:
            process = await asyncio.create_subprocess_exec(
                self._command,
                *(self._config.args or ()),
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                # A person must see the prompt for a password.
                stderr=None if interactive else asyncio.subprocess.PIPE,
                env=env,
            )
        except OSError as error:
            raise CredentialsError(self._failed(f"cannot be started: {error.strerror or error}")) from error
        limit = _LOGIN_TIMEOUT_SECONDS if interactive else _TIMEOUT_SECONDS
        try:
            async with asyncio.timeout(limit):
                stdout, stderr = await process.communicate()
        except TimeoutError as error:
            raise CredentialsError(self._failed(f"gave no answer within {limit:g} s")) from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise CredentialsError(self._failed(f"ended with exit code {process.returncode}", stderr or b""))
        return stdout

    def _interactive(self) -> bool:
        terminal = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
        if self._config.interactive_mode == "Always" and not terminal:
            raise CredentialsError(
                f"{self._where}: interactiveMode is 'Always', but there is no terminal to ask on; "
                "expected 'IfAvailable' or 'Never', or a terminal"
            )
        return terminal and self._config.interactive_mode != "Never"

    def _parse(self, stdout: bytes) -> _CredentialStatus:
        # Do not show the plug-in's output: it may be a token.
        try:
            credential = msgspec.json.decode(stdout, type=_Credential)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CredentialsError(self._failed(f"did not write an ExecCredential as JSON: {error}")) from None
        if credential.kind != "ExecCredential" or credential.api_version != self._config.api_version:
            raise CredentialsError(
                self._failed(
                    f"answered with {credential.kind} of {credential.api_version}; "
                    f"expected ExecCredential of {self._config.api_version}"
                )
            )
        status = credential.status
        if status is None or not (status.token or status.client_certificate_data or status.client_key_data):
            raise CredentialsError(
                self._failed("gave no credentials; expected status.token, or clientCertificateData and clientKeyData")
            )
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            given, missing = ("clientCertificateData", "clientKeyData")
            if not status.client_certificate_data:
                given, missing = missing, given
            raise CredentialsError(self._failed(f"gave status.{given} without status.{missing}; expected both"))
        if status.expiration_timestamp and status.expiration_timestamp.tzinfo is None:
            raise CredentialsError(self._failed("gave a status.expirationTimestamp without a time zone"))
        return status

    def _failed(self, what: str, stderr: bytes = b"") -> str:
        text = f"{self._where}: the command {self._config.command!r} {what}"
        tail = stderr.decode("utf-8", "replace").strip()[-_STDERR_TAIL_CHARACTERS:]
        if tail:
            text += f"; stderr: {tail}"
        if self._config.install_hint:
            text += f"\n{self._config.install_hint.strip()}"
        return text


def _resolve(command: str, directory: Path, env: Mapping[str, str]) -> str:
    """A command with a slash is relative to its kubeconfig; any other is searched in PATH."""
    if os.sep in command:
        return str(directory / command)
    return shutil.which(command, path=env.get("PATH")) or command
