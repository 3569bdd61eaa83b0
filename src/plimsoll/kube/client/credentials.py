"""Credentials and address of the API server, from kubeconfig files or a pod's service account."""

from __future__ import annotations

import base64
import os
import ssl
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from multidict import CIMultiDict
from yarl import URL

from plimsoll.kube.client.errors import CredentialsError
from plimsoll.kube.client.exec_plugin import ExecPlugin
from plimsoll.kube.client.kubeconfig import KubeconfigCluster, KubeconfigEntry, KubeconfigUser, decode_base64, select
from plimsoll.kube.client.proxy import parse_proxy, proxy_for
from plimsoll.kube.client.tls import Certificate, Pem, Tls
from plimsoll.runtime.clock import Clock, RealClock

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"  # the cluster extension with configuration for exec plug-ins


class ClientIdentity(Protocol):
    """A source of authentication headers and client certificates."""

    async def headers(self) -> Mapping[str, str]: ...

    def certificate(self) -> Certificate | None: ...

    def refused(self) -> bool:
        """Handle a 401; returns True if asking again may yield other credentials."""
        ...


class Credentials:
    """Everything that a client needs to connect to one API server."""

    def __init__(
        self,
        server: str,
        identity: ClientIdentity | None = None,
        *,
        certificate: Callable[[], Certificate] | None = None,
        namespace: str = "default",
        tls: Tls | None = None,
        tls_server_name: str = "",
        proxy: URL | None = None,
        impersonation: Sequence[tuple[str, str]] = (),
        context: str = "",
    ) -> None:
        self.server = server  # the base URL, without a trailing slash
        self.context = context  # name of the kubeconfig context, empty inside a cluster
        self.namespace = namespace
        self.tls_server_name = tls_server_name
        self.proxy = proxy
        self._identity = identity or StaticIdentity()
        self._certificate = certificate
        self._tls = tls
        self._impersonation = tuple(impersonation)

    def __repr__(self) -> str:
        return f"Credentials(server={self.server!r}, namespace={self.namespace!r})"

    def ssl_context(self) -> ssl.SSLContext | None:
        """The TLS context for the next connection. Call `authorization` first: it may fetch a new certificate."""
        if self._tls is None:
            return None
        return self._tls.context(self._certificate() if self._certificate else self._identity.certificate())

    async def authorization(self) -> CIMultiDict[str]:
        """The authentication headers, renewed if they expired."""
        headers = CIMultiDict(await self._identity.headers())
        headers.extend(self._impersonation)
        return headers

    def refused(self) -> bool:
        """Handle a 401: drop cached credentials. Returns False if there is nothing to renew."""
        return self._identity.refused()


class StaticIdentity:
    """A fixed header, or none."""

    def __init__(self, authorization: str = "") -> None:
        self._headers = {"Authorization": authorization} if authorization else {}

    async def headers(self) -> Mapping[str, str]:
        return self._headers

    def certificate(self) -> Certificate | None:
        return None

    def refused(self) -> bool:
        return False


class TokenFileIdentity:
    """A bearer token from a file that is replaced before it expires, as for a pod's service account."""

    def __init__(self, file: WatchedFile, otherwise: str = "") -> None:
        self._file = file
        self._otherwise = otherwise  # the `token` beside a `tokenFile`, used until the file exists

    async def headers(self) -> Mapping[str, str]:
        try:
            token = self._file.read().decode("ascii", "replace").strip()
        except CredentialsError:
            if not self._otherwise:
                raise
            token = self._otherwise
        if not token:
            raise CredentialsError(f"{self._file.path}: the file is empty; expected a bearer token")
        return {"Authorization": f"Bearer {token}"}

    def certificate(self) -> Certificate | None:
        return None

    def refused(self) -> bool:
        self._file.expire()
        return True


def load_credentials(
    kubeconfig: Path | None = None,
    context: str | None = None,
    env: Mapping[str, str] = os.environ,
    *,
    clock: Clock | None = None,
) -> Credentials:
    """Load the first of: the given file, the files in KUBECONFIG, ~/.kube/config, the pod's service account."""
    clock = clock or RealClock()
    if kubeconfig is not None:
        return from_kubeconfig([kubeconfig], context, env, clock)
    if listed := [Path(part) for part in env.get("KUBECONFIG", "").split(os.pathsep) if part]:
        # Like kubectl, skip files that do not exist, so that one list can serve several machines.
        if existing := [path for path in listed if path.exists()]:
            return from_kubeconfig(existing, context, env, clock)
        raise CredentialsError(f"KUBECONFIG names {', '.join(map(str, listed))}: expected at least one to exist")
    default = (Path(env["HOME"]) if env.get("HOME") else Path.home()) / ".kube" / "config"
    if default.exists():
        return from_kubeconfig([default], context, env, clock)
    if context is not None:
        raise CredentialsError(f"context {context!r} was given, but there is no kubeconfig: {default} does not exist")
    if env.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster(env, clock)
    raise CredentialsError(
        f"no cluster configured: no --kubeconfig, KUBECONFIG is not set, {default} does not exist, "
        "and KUBERNETES_SERVICE_HOST is not set, so this is not a pod; provide one of these"
    )


def in_cluster(env: Mapping[str, str], clock: Clock, directory: Path | None = None) -> Credentials:
    """Credentials of the service account of this pod."""
    directory = directory or SERVICE_ACCOUNT
    host, port = env.get("KUBERNETES_SERVICE_HOST", ""), env.get("KUBERNETES_SERVICE_PORT") or "443"
    if not host:
        raise CredentialsError(
            "KUBERNETES_SERVICE_HOST is not set; expected the address that Kubernetes sets in every pod"
        )
    authority = WatchedFile(directory / "ca.crt", "service account", clock)
    token = WatchedFile(directory / "token", "service account", clock)
    authority.read()  # report missing files at startup
    token.read()
    server = _server(f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}", "KUBERNETES_SERVICE_HOST")
    namespace_file = directory / "namespace"
    return Credentials(
        server,
        TokenFileIdentity(token),
        namespace=(namespace_file.read_text().strip() if namespace_file.exists() else "") or "default",
        tls=Tls(str(directory / "ca.crt"), authority=authority.read),
        proxy=proxy_for(server, env),
    )


def from_kubeconfig(files: Sequence[Path], context: str | None, env: Mapping[str, str], clock: Clock) -> Credentials:
    selection = select([path.absolute() for path in files], context)
    cluster = selection.cluster
    server = _server(cluster.entry.server, f"{cluster.where}: server")
    if cluster.entry.proxy_url:
        proxy: URL | None = parse_proxy(cluster.entry.proxy_url, f"{cluster.where}: proxy-url")
    else:
        proxy = proxy_for(server, env)
    authority = _pem(cluster, "certificate-authority", clock)
    credentials = Credentials(
        server,
        _identity(selection.user, cluster, authority, env, clock),
        certificate=_certificate(selection.user, clock),
        namespace=selection.namespace,
        tls=_tls(cluster, authority) if server.startswith("https:") else None,
        tls_server_name=cluster.entry.tls_server_name,
        proxy=proxy,
        impersonation=_impersonation(selection.user),
        context=selection.context,
    )
    credentials.ssl_context()  # report unusable certificates at startup
    return credentials


def _server(value: str, field: str) -> str:
    try:
        url = URL(value)
    except ValueError:
        url = URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise CredentialsError(f"{field}: expected https://HOST:PORT, got {value!r}")
    if url.user or url.password:
        raise CredentialsError(f"{field}: expected https://HOST:PORT without a user name; define a user entry instead")
    return value.rstrip("/")


def _tls(cluster: KubeconfigEntry[KubeconfigCluster], authority: Pem | None) -> Tls:
    entry = cluster.entry
    if entry.insecure_skip_tls_verify and authority:
        raise CredentialsError(
            f"{cluster.where}: insecure-skip-tls-verify and certificate-authority exclude each other; expected one of them"
        )
    return Tls(cluster.where, authority=authority, insecure=entry.insecure_skip_tls_verify)


def _identity(
    user: KubeconfigEntry[KubeconfigUser],
    cluster: KubeconfigEntry[KubeconfigCluster],
    authority: Pem | None,
    env: Mapping[str, str],
    clock: Clock,
) -> ClientIdentity:
    entry = user.entry
    if entry.auth_provider is not None:
        raise CredentialsError(
            f"{user.where}: auth-provider was removed from Kubernetes in 1.26; use exec with the plug-in of your provider"
        )
    basic = ""
    if entry.username or entry.password:
        if entry.token or entry.token_file:
            raise CredentialsError(f"{user.where}: username and token exclude each other; expected one of them")
        # The API server dropped basic authentication in 1.19, but gateways in front of it may use it.
        pair = f"{entry.username}:{entry.password}".encode()
        basic = "Basic " + base64.b64encode(pair).decode()
    if entry.token_file:
        file = WatchedFile(user.path(entry.token_file), f"{user.where}: tokenFile", clock)
        return TokenFileIdentity(file, entry.token)
    if entry.exec and not (entry.token or basic):
        info = _cluster_info(cluster, authority) if entry.exec.provide_cluster_info else None
        return ExecPlugin(user, entry.exec, info, env, clock)
    return StaticIdentity(f"Bearer {entry.token}" if entry.token else basic)


def _certificate(user: KubeconfigEntry[KubeconfigUser], clock: Clock) -> Callable[[], Certificate] | None:
    chain, key = _pem(user, "client-certificate", clock), _pem(user, "client-key", clock)
    if chain and key:
        return lambda: Certificate(chain(), key())
    if chain or key:
        given, missing = ("client-certificate", "client-key") if chain else ("client-key", "client-certificate")
        raise CredentialsError(f"{user.where}: {given} is set and {missing} is not; expected both")
    return None


def _impersonation(user: KubeconfigEntry[KubeconfigUser]) -> list[tuple[str, str]]:
    """The impersonation headers. Without them the process would have permissions that the kubeconfig gives up."""
    entry = user.entry
    if not entry.impersonate:
        if entry.impersonate_uid or entry.impersonate_groups or entry.impersonate_extra:
            raise CredentialsError(f"{user.where}: as-uid, as-groups and as-user-extra need a user; expected `as`, too")
        return []
    headers = [("Impersonate-User", entry.impersonate)]
    if entry.impersonate_uid:
        headers.append(("Impersonate-Uid", entry.impersonate_uid))
    headers += [("Impersonate-Group", group) for group in entry.impersonate_groups or ()]
    for name, values in (entry.impersonate_extra or {}).items():
        headers += [(f"Impersonate-Extra-{name}", value) for value in values]
    return headers


def _cluster_info(cluster: KubeconfigEntry[KubeconfigCluster], authority: Pem | None) -> Mapping[str, Any]:
    """The cluster info that is passed to an exec plug-in."""
    entry = cluster.entry
    info: dict[str, Any] = {"server": entry.server}
    if entry.tls_server_name:
        info["tls-server-name"] = entry.tls_server_name
    if entry.insecure_skip_tls_verify:
        info["insecure-skip-tls-verify"] = True
    if authority:
        info["certificate-authority-data"] = base64.b64encode(authority()).decode()
    if entry.proxy_url:
        info["proxy-url"] = entry.proxy_url
    for extension in entry.extensions or ():
        if extension.name == _EXEC_EXTENSION:
            info["config"] = extension.extension
    return info


def _pem(written: KubeconfigEntry[Any], field: str, clock: Clock) -> Pem | None:
    """The PEM text of `<field>-data`, or of the file that `<field>` names."""
    attribute = field.replace("-", "_")
    if data := getattr(written.entry, f"{attribute}_data"):
        content = decode_base64(data, f"{written.where}: {field}-data")
        return lambda: content
    if path := getattr(written.entry, attribute):
        file = WatchedFile(written.path(path), f"{written.where}: {field}", clock)
        return file.read
    return None


class WatchedFile:
    """The content of a file, read again once per minute.

    That is often enough: the kubelet replaces a token when a fifth of its lifetime is left, and the shortest lifetime is ten
    minutes.
    """

    REREAD_SECONDS = 60.0

    def __init__(self, path: Path, field: str, clock: Clock) -> None:
        self.path = path
        self._field = field  # where the path is configured, for error messages
        self._clock = clock
        self._content: bytes | None = None
        self._read_at: float | None = None

    def read(self) -> bytes:
        """The content. If it cannot be read again, the previous content: a token stays valid while its file is missing."""
        now = self._clock.monotonic()
        if self._content is not None and self._read_at is not None and now - self._read_at < self.REREAD_SECONDS:
            return self._content
        try:
            content = self.path.read_bytes()
        except OSError as error:
            if self._content is None:
                raise CredentialsError(
                    f"{self._field}: {self.path} cannot be read: {error.strerror or error}"
                ) from error
            content = self._content
        # An empty file is being written; keep the old content until it is complete.
        if content.strip() or self._content is None:
            self._content = content
        self._read_at = now
        return self._content

    def expire(self) -> None:
        """Read the file again at the next use, because the server refused its content."""
        self._read_at = None
