"""The command line of each component: the flags, and why they are not the defaults."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.controlplane.access import Access
from tools.controlplane.binaries import Binaries

# In the order in which they start. Each may be left out, but not one that another needs (see `ControlPlane.start`).
COMPONENTS = ("etcd", "tokens", "apiserver", "controller-manager", "scheduler", "kwok")
STAGES = Path(__file__).with_name("stages.yaml")
# The default client-side limits of the controllers would slow tests down.
_UNHURRIED = ("--kube-api-qps=5000", "--kube-api-burst=10000")
# Controllers that need a cloud provider, which this cluster does not have.
_CLOUD_CONTROLLERS = ("node-ipam-controller",)
# kube-controller-manager 1.37 no longer has these, and refuses a name that it does not know.
_CLOUD_CONTROLLERS_BEFORE_1_37 = ("node-route-controller", "cloud-node-lifecycle-controller", "service-lb-controller")


@dataclass(frozen=True)
class Ports:
    """The loopback ports of one cluster."""

    etcd: int
    etcd_peer: int
    tokens: int
    apiserver: int
    controller_manager: int
    scheduler: int
    kwok: int


@dataclass(frozen=True)
class Layout:
    """What the command lines are made of."""

    binaries: Binaries
    ports: Ports
    access: Access
    etcd_data: Path
    # One kubeconfig for each user of `access.BUILT_IN_USERS`.
    kubeconfigs: Mapping[str, Path]

    def command(self, component: str, extra: Sequence[str]) -> list[str]:
        """The command line; a later flag wins over an earlier one, so `extra` can overrule ours."""
        commands = {
            "etcd": self._etcd,
            "tokens": self._tokens,
            "apiserver": self._apiserver,
            "controller-manager": self._controller_manager,
            "scheduler": self._scheduler,
            "kwok": self._kwok,
        }
        return [*commands[component](), *extra]

    def health_url(self, component: str) -> str:
        """Where the component says that it is ready."""
        urls = {
            "etcd": f"http://127.0.0.1:{self.ports.etcd}/health?serializable=true",
            "tokens": f"http://127.0.0.1:{self.ports.tokens}/",
            "apiserver": f"https://127.0.0.1:{self.ports.apiserver}/readyz",
            "controller-manager": f"https://127.0.0.1:{self.ports.controller_manager}/healthz",
            "scheduler": f"https://127.0.0.1:{self.ports.scheduler}/readyz",
            "kwok": f"http://127.0.0.1:{self.ports.kwok}/healthz",
        }
        return urls[component]

    def _etcd(self) -> list[str]:
        client, peer = f"http://127.0.0.1:{self.ports.etcd}", f"http://127.0.0.1:{self.ports.etcd_peer}"
        return [
            str(self.binaries.path("etcd")),
            f"--data-dir={self.etcd_data}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            # Nothing in it must survive the machine.
            "--unsafe-no-fsync",
            "--quota-backend-bytes=8589934592",
            "--log-level=warn",
        ]

    def _tokens(self) -> list[str]:
        script = Path(__file__).with_name("tokens.py")
        # Isolated and without site-packages: it needs neither, and starts in a third of the time.
        return [sys.executable, "-I", "-S", str(script), str(self.ports.tokens), str(self.access.users_file)]

    def _apiserver(self) -> list[str]:
        return [
            str(self.binaries.path("kube-apiserver")),
            f"--etcd-servers=http://127.0.0.1:{self.ports.etcd}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.ports.apiserver}",
            f"--cert-dir={self.access.certificates}",
            "--authorization-mode=RBAC",
            f"--token-auth-file={self.access.token_file}",
            f"--authentication-token-webhook-config-file={self.access.webhook_kubeconfig}",
            "--authentication-token-webhook-version=v1",
            # So that a token that was taken away is refused soon: what remains is the server's own memory of 10 s.
            "--authentication-token-webhook-cache-ttl=1s",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={self.access.service_account_key}",
            f"--service-account-signing-key-file={self.access.service_account_key}",
            # Else no pod could be created before a controller has made its namespace's default service account.
            "--disable-admission-plugins=ServiceAccount",
            "--service-cluster-ip-range=10.96.0.0/16",
            # Nothing looks up the endpoints of the server.
            "--endpoint-reconciler-type=none",
            # A 429 in a test must be one that the test caused: no limit on requests in flight.
            "--enable-priority-and-fairness=false",
            "--max-requests-inflight=0",
            "--max-mutating-requests-inflight=0",
            # A namespace full of pods goes in one request; by default it deletes them one after the other.
            "--delete-collection-workers=10",
        ]

    def _controller_manager(self) -> list[str]:
        older = self.binaries.versions.kubernetes_minor in ("1.34", "1.35", "1.36")
        names = (*_CLOUD_CONTROLLERS, *(_CLOUD_CONTROLLERS_BEFORE_1_37 if older else ()))
        disabled = ",".join(f"-{name}" for name in names)
        return [
            str(self.binaries.path("kube-controller-manager")),
            f"--kubeconfig={self.kubeconfigs['kube-controller-manager']}",
            f"--controllers=*,{disabled}",
            f"--root-ca-file={self.access.ca_file}",
            f"--service-account-private-key-file={self.access.service_account_key}",
            *self._served_at(self.ports.controller_manager),
            *_UNHURRIED,
        ]

    def _scheduler(self) -> list[str]:
        return [
            str(self.binaries.path("kube-scheduler")),
            f"--kubeconfig={self.kubeconfigs['kube-scheduler']}",
            *self._served_at(self.ports.scheduler),
            *_UNHURRIED,
        ]

    def _served_at(self, port: int) -> list[str]:
        return [
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            # The API server's own, which saves making another pair of keys.
            f"--tls-cert-file={self.access.ca_file}",
            f"--tls-private-key-file={self.access.ca_file.with_suffix('.key')}",
            "--authentication-skip-lookup=true",
        ]

    def _kwok(self) -> list[str]:
        return [
            str(self.binaries.path("kwok")),
            f"--kubeconfig={self.kubeconfigs['kwok']}",
            f"--config={STAGES}",
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
            f"--server-address=127.0.0.1:{self.ports.kwok}",
            "--node-lease-duration-seconds=40",
            "--cidr=10.128.0.0/9",
        ]
