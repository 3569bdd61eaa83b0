"""Reads, validates and merges kubeconfig files as kubectl does."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import yaml

from plimsoll.kube.client.errors import CredentialsError

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Entry(msgspec.Struct, frozen=True, rename="kebab"):
    """Base of kubeconfig entries. Unknown keys are ignored, because other tools store theirs here."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"  # many fields are secrets and could end up in a traceback


class Extension(_Entry, frozen=True):
    name: str
    extension: Any = None


class KubeconfigCluster(_Entry, frozen=True):
    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    extensions: tuple[Extension, ...] | None = None


class ExecVariable(_Entry, frozen=True):
    name: str
    value: str


class ExecConfig(_Entry, frozen=True, rename="camel"):
    command: str
    args: tuple[str, ...] | None = None
    env: tuple[ExecVariable, ...] | None = None
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class KubeconfigUser(_Entry, frozen=True):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    impersonate: str = msgspec.field(default="", name="as")
    impersonate_uid: str = msgspec.field(default="", name="as-uid")
    impersonate_groups: tuple[str, ...] | None = msgspec.field(default=None, name="as-groups")
    impersonate_extra: dict[str, tuple[str, ...]] | None = msgspec.field(default=None, name="as-user-extra")
    exec: ExecConfig | None = None
    auth_provider: Any = None


class KubeconfigContext(_Entry, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(_Entry, frozen=True):
    name: str
    cluster: KubeconfigCluster | None = None


class _NamedUser(_Entry, frozen=True):
    name: str
    user: KubeconfigUser | None = None


class _NamedContext(_Entry, frozen=True):
    name: str
    context: KubeconfigContext | None = None


class _File(_Entry, frozen=True):
    clusters: tuple[_NamedCluster, ...] | None = None
    users: tuple[_NamedUser, ...] | None = None
    contexts: tuple[_NamedContext, ...] | None = None
    current_context: str | None = None


E = TypeVar("E")


@dataclass(frozen=True)
class KubeconfigEntry(Generic[E]):
    """An entry with its file, which relative paths and error messages refer to."""

    entry: E
    file: Path
    name: str
    kind: str

    @property
    def where(self) -> str:
        return f"{self.file}: {self.kind} {self.name!r}"

    def path(self, value: str) -> Path:
        return self.file.parent / value


@dataclass(frozen=True)
class Selection:
    """The cluster, user and namespace of a context."""

    context: str
    namespace: str
    cluster: KubeconfigEntry[KubeconfigCluster]
    user: KubeconfigEntry[KubeconfigUser]


def select(files: Sequence[Path], context: str | None) -> Selection:
    """The named or current context from several files. The first file that sets a name or a value wins entirely."""
    clusters: dict[str, KubeconfigEntry[KubeconfigCluster]] = {}
    users: dict[str, KubeconfigEntry[KubeconfigUser]] = {}
    contexts: dict[str, KubeconfigEntry[KubeconfigContext]] = {}
    current = ""
    for path in files:
        file = _read(path)
        # Entries of the same name are not merged: two halves of a user would form a user that no file defines.
        _merge(clusters, {c.name: c.cluster or KubeconfigCluster() for c in file.clusters or ()}, path, "cluster")
        _merge(users, {u.name: u.user or KubeconfigUser() for u in file.users or ()}, path, "user")
        _merge(contexts, {c.name: c.context or KubeconfigContext() for c in file.contexts or ()}, path, "context")
        current = current or file.current_context or ""
    read = ", ".join(str(path) for path in files)
    name = context or current
    if not name:
        raise CredentialsError(
            f"{read}: current-context is not set and no context was given; "
            f"expected one of: {_names(contexts)} (--context NAME, or kubectl config use-context NAME)"
        )
    if name not in contexts:
        source = "the given context" if context else "current-context"
        raise CredentialsError(
            f"{read}: {source} is {name!r}, which does not exist; expected one of: {_names(contexts)}"
        )
    chosen = contexts[name]
    if not chosen.entry.cluster:
        raise CredentialsError(f"{chosen.where}: cluster is not set; expected one of: {_names(clusters)}")
    if chosen.entry.cluster not in clusters:
        raise CredentialsError(
            f"{chosen.where}: cluster is {chosen.entry.cluster!r}, which does not exist; expected one of: {_names(clusters)}"
        )
    if chosen.entry.user and chosen.entry.user not in users:
        raise CredentialsError(
            f"{chosen.where}: user is {chosen.entry.user!r}, which does not exist; expected one of: {_names(users)}"
        )
    nobody = KubeconfigEntry(KubeconfigUser(), chosen.file, "", "user")
    return Selection(
        name,
        chosen.entry.namespace or "default",
        clusters[chosen.entry.cluster],
        users[chosen.entry.user] if chosen.entry.user else nobody,
    )


def decode_base64(value: str, field: str) -> bytes:
    try:
        return base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise CredentialsError(f"{field}: expected base64 of a PEM file: {error}") from error


def _read(path: Path) -> _File:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise CredentialsError(f"kubeconfig {path} cannot be read: {error.strerror or error}") from error
    try:
        content = yaml.load(text, _Loader)  # noqa: S506  (a safe loader, in C where there is one)
    except yaml.MarkedYAMLError as error:
        # The library's own message quotes the line, which may hold a token.
        mark = error.problem_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise CredentialsError(f"kubeconfig {path}{where}: not YAML: {error.problem}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise CredentialsError(f"kubeconfig {path}: not YAML: it contains binary characters") from None
    if content is None:
        return _File()
    if not isinstance(content, Mapping):
        raise CredentialsError(f"kubeconfig {path}: expected a mapping with clusters, users and contexts")
    try:
        file = msgspec.convert(content, _File)
    except msgspec.ValidationError as error:
        raise CredentialsError(f"kubeconfig {path}: {error}") from None
    for field, entries in (("clusters", file.clusters), ("users", file.users), ("contexts", file.contexts)):
        names = [entry.name for entry in entries or ()]
        for name in names:
            if names.count(name) > 1:
                raise CredentialsError(
                    f"kubeconfig {path}: {field} has {name!r} more than once; expected one entry per name"
                )
    return file


def _merge(into: dict[str, KubeconfigEntry[E]], entries: Mapping[str, E], file: Path, kind: str) -> None:
    for name, entry in entries.items():
        into.setdefault(name, KubeconfigEntry(entry, file, name, kind))


def _names(entries: Mapping[str, object]) -> str:
    return ", ".join(sorted(entries)) or "(there are none)"
