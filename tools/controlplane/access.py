"""Who may talk to the cluster and how: tokens, kubeconfig files, and the key that signs service account tokens."""

from __future__ import annotations

import base64
import json
import secrets
import textwrap
from collections.abc import Sequence
from pathlib import Path

import yaml

# Our own components and the tests' administrator. They differ in name, so that audit logs and managed fields tell them
# apart, and share the group that RBAC lets do anything.
BUILT_IN_USERS = ("admin", "kube-controller-manager", "kube-scheduler", "kwok")
_EVERYTHING = "system:masters"


class Access:
    """The credentials of one cluster, in files below its directory."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        # Read by the API server when it starts.
        self.token_file = directory / "tokens.csv"
        # Read by the token webhook at each question.
        self.users_file = directory / "users.json"
        self.webhook_kubeconfig = directory / "token-webhook.kubeconfig"
        self.service_account_key = directory / "service-account.key"
        # The API server makes its own certificate here when it starts for the first time; the file also holds the
        # authority that signed it, which is what clients need.
        self.certificates = directory / "certificates"
        self.ca_file = self.certificates / "apiserver.crt"
        self._tokens = {user: secrets.token_hex(16) for user in BUILT_IN_USERS}

    def write(self, webhook_port: int) -> None:
        """Write what the API server needs before it starts."""
        self.certificates.mkdir(exist_ok=True)
        lines = [f'{token},{user},{user},"{_EVERYTHING}"\n' for user, token in self._tokens.items()]
        _write_secret(self.token_file, "".join(lines))
        _write_secret(self.users_file, "{}")
        _write_secret(self.service_account_key, _new_signing_key())
        _write_secret(self.webhook_kubeconfig, _kubeconfig(f"http://127.0.0.1:{webhook_port}", None, "", "webhook"))

    def built_in_token(self, user: str) -> str:
        """The token of one of BUILT_IN_USERS."""
        return self._tokens[user]

    def add_user(self, user: str, groups: Sequence[str]) -> str:
        """A new token for a user, valid at once."""
        token = secrets.token_hex(16)
        users = json.loads(self.users_file.read_text())
        users[token] = {"username": user, "uid": user, "groups": list(groups)}
        self._write_users(users)
        return token

    def remove_token(self, token: str) -> None:
        """Make a token of `add_user` invalid, as soon as the API server's memory of it ends."""
        users = json.loads(self.users_file.read_text())
        users.pop(token, None)
        self._write_users(users)

    def write_kubeconfig(self, path: Path, server: str, token: str, user: str) -> Path:
        """A kubeconfig that holds everything itself, so that it can be copied elsewhere."""
        _write_secret(path, _kubeconfig(server, self.ca_file, token, user))
        return path

    def _write_users(self, users: object) -> None:
        # Renamed into place: the webhook must not read half a file.
        new = self.users_file.with_suffix(".new")
        _write_secret(new, json.dumps(users))
        new.replace(self.users_file)


def _kubeconfig(server: str, ca_file: Path | None, token: str, user: str) -> str:
    cluster = {"server": server}
    if ca_file is not None:
        cluster["certificate-authority-data"] = base64.b64encode(ca_file.read_bytes()).decode()
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "plimsoll",
            "clusters": [{"name": "plimsoll", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token} if token else {}}],
            "contexts": [{"name": "plimsoll", "context": {"cluster": "plimsoll", "user": user}}],
        },
        sort_keys=False,
    )


def _new_signing_key() -> str:
    """A P-256 private key in PEM.

    Any number below the order of the curve is a private key, and the form of RFC 5915 may leave the public half to the
    reader, so this needs no cryptographic library. Clearing the highest bit keeps the number below the order.
    """
    number = secrets.randbits(255).to_bytes(32, "big")
    version, curve = bytes.fromhex("020101"), bytes.fromhex("a00a06082a8648ce3d030107")
    body = version + bytes([0x04, len(number)]) + number + curve
    encoded = base64.b64encode(bytes([0x30, len(body)]) + body).decode()
    return "\n".join(
        ["-----BEGIN EC PRIVATE KEY-----", *textwrap.wrap(encoded, 64), "-----END EC PRIVATE KEY-----", ""]
    )


def _write_secret(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
