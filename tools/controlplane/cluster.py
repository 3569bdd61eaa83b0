"""A control plane that runs: started in seconds, addressed, bent and broken by tests, and gone without a trace."""

from __future__ import annotations

import atexit
import dataclasses
import itertools
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from plimsoll.embedded_cluster.node_spec import parse_node_line
from tools.controlplane.access import BUILT_IN_USERS, Access
from tools.controlplane.api import Api, ApiError, answers
from tools.controlplane.binaries import Binaries, find_binaries
from tools.controlplane.components import COMPONENTS, Layout, Ports
from tools.controlplane.leftovers import keep, new_directory, remove_leftovers
from tools.controlplane.ports import ReservedPorts
from tools.controlplane.process import ComponentFailedError, Process

_ATTEMPTS = 3
# Go's collector runs whenever the heap has doubled, and half a second of each ten that the API server works is its. There is more
# memory here than time.
_UNHURRIED_COLLECTOR = {"GOGC": "400"}
_PORT_TAKEN = "address already in use"
# On a namespace whose content the namespace controller leaves alone, as it has no finalizer of Kubernetes' own.
_OURS_TO_CLEAR = "controlplane.test/cleared-by-its-owner"
# What makes other things or counts for somebody elsewhere; what makes before what it makes.
_THAT_ACT = (
    "apis/autoscaling/v2/horizontalpodautoscalers",
    "apis/batch/v1/cronjobs",
    "apis/batch/v1/jobs",
    "apis/apps/v1/deployments",
    "apis/apps/v1/statefulsets",
    "apis/apps/v1/daemonsets",
    "apis/apps/v1/replicasets",
    "api/v1/replicationcontrollers",
    "api/v1/pods",
    "apis/policy/v1/poddisruptionbudgets",
    "api/v1/persistentvolumeclaims",
    "apis/coordination.k8s.io/v1/leases",
    "api/v1/configmaps",
)
_NODE_ADDRESSES = 100 << 24 | 64 << 16  # 100.64.0.0/10, which is nobody's


class ControlPlane:
    """One cluster. `with ControlPlane.start(nodes=["3 zone=a"]) as cluster: …` stops it at the end in any case."""

    def __init__(
        self,
        binaries: Binaries,
        directory: Path,
        components: Mapping[str, bool],
        extra_args: Mapping[str, Sequence[str]],
        timeout: float,
    ) -> None:
        self.binaries = binaries
        self.directory = directory
        self.logs = directory / "logs"
        self._timeout = timeout
        self._enabled = [name for name in COMPONENTS if components.get(name, True)]
        self._extra_args = extra_args
        self._owner = os.getpid()
        self._processes: dict[str, Process] = {}
        self._etcd_directory = new_directory("etcd", in_memory=True)
        self._numbers = itertools.count(1)
        self._stopped = False
        self._ports: ReservedPorts | None = None
        self._api: Api | None = None
        self._layout: Layout | None = None

    # --- starting and stopping ---------------------------------------------------------------------------------------

    @classmethod
    def start(
        cls,
        *,
        kubernetes: str | None = None,
        binaries: Binaries | None = None,
        nodes: Iterable[str] = (),
        components: Mapping[str, bool] | None = None,
        extra_args: Mapping[str, Sequence[str]] | None = None,
        directory: Path | None = None,
        timeout: float = 180.0,
    ) -> Self:
        """Start a cluster and wait until every component is ready.

        kubernetes: a version or a minor; None means $KUBERNETES and then the newest supported.
        nodes: lines for `add_nodes`.
        components: `{"scheduler": False}` leaves one of `COMPONENTS` out.
        extra_args: further flags a component, `{"apiserver": ["--event-ttl=1m"]}`; they overrule ours.
        directory: where certificates, kubeconfigs and logs go; a temporary one if None.
        timeout: seconds for each component to become ready.
        """
        chosen = dict(components or {})
        _check_components(chosen, extra_args or {})
        binaries = binaries or find_binaries(kubernetes)
        remove_leftovers()
        for attempt in itertools.count(1):
            place = directory or new_directory("cluster")
            cluster = cls(binaries, place, chosen, extra_args or {}, timeout)
            try:
                cluster._start()
                for line in nodes:
                    cluster.add_nodes(line)
            except BaseException as error:
                port_taken = isinstance(error, ComponentFailedError) and _PORT_TAKEN in str(error)
                again = port_taken and attempt < _ATTEMPTS
                cluster.stop(keep_logs=isinstance(error, Exception) and not again)
                if not again:
                    raise
            else:
                return cluster
        raise AssertionError  # the loop ends by itself

    def _start(self) -> None:
        self.logs.mkdir(parents=True, exist_ok=True)
        self._ports = ReservedPorts(len(dataclasses.fields(Ports)))
        ports = Ports(*self._ports.numbers)
        access = Access(self.directory / "access")
        access.write(ports.tokens)
        kubeconfigs = {user: access.directory / f"{user}.kubeconfig" for user in BUILT_IN_USERS}
        self._layout = Layout(self.binaries, ports, access, self._etcd_directory / "data", kubeconfigs)
        atexit.register(self._stop_if_owner)
        for name in self._enabled:
            command = self._layout.command(name, self._extra_args.get(name, ()))
            self._processes[name] = Process(name, command, self.logs / f"{name}.log", _UNHURRIED_COLLECTOR | os.environ)
        first = [name for name in ("etcd", "tokens", "apiserver") if name in self._processes]
        for name in first:
            self._processes[name].start()
        for name in first:
            self._wait_ready(name)
        for user, path in kubeconfigs.items():
            access.write_kubeconfig(path, self.server, access.built_in_token(user), user)
        self._api = Api(self.server, access.ca_file, self.admin_token)
        rest = [name for name in self._enabled if name not in first]
        for name in rest:
            self._processes[name].start()
        for name in rest:
            self._wait_ready(name)

    def stop(self, *, keep_logs: bool = False) -> None:
        """End every process and remove every file, but for the logs if asked."""
        if self._stopped:
            return
        # From the outside in: none shall complain of another that is gone already.
        for process in reversed(self._processes.values()):
            process.stop()
        if self._api is not None:
            self._api.close()
        if self._ports is not None:
            self._ports.release()
        shutil.rmtree(self._etcd_directory, ignore_errors=True)
        if keep_logs:
            keep(self.directory)
            shutil.rmtree(self.directory / "access", ignore_errors=True)
        else:
            shutil.rmtree(self.directory, ignore_errors=True)
        # Only now: a second Ctrl-C may have interrupted us, and then the end of the process does the rest.
        self._stopped = True
        atexit.unregister(self._stop_if_owner)

    def _stop_if_owner(self) -> None:
        # A forked child inherits the exit handlers, but not the cluster.
        if os.getpid() == self._owner:
            self.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        failed = exc is not None and isinstance(exc, Exception)
        self.stop(keep_logs=failed)
        if failed:
            print(f"logs of the control plane: {self.logs}", file=sys.stderr)

    # --- talking to it -----------------------------------------------------------------------------------------------

    @property
    def server(self) -> str:
        """The API server's address."""
        return f"https://127.0.0.1:{self._running_layout.ports.apiserver}"

    @property
    def ca_file(self) -> Path:
        """The certificate authority that clients must trust."""
        return self._running_layout.access.ca_file

    @property
    def admin_token(self) -> str:
        """A bearer token that may do anything."""
        return self._running_layout.access.built_in_token("admin")

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig that may do anything."""
        return self._running_layout.kubeconfigs["admin"]

    def token_for(self, user: str, groups: Sequence[str] = ()) -> str:
        """A new bearer token for a user that RBAC has granted nothing yet."""
        self._require("tokens", "mint a token")
        return self._running_layout.access.add_user(user, groups)

    def revoke(self, token: str) -> None:
        """Make a token of `token_for` invalid; the API server may remember it for up to ten seconds."""
        self._running_layout.access.remove_token(token)

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig for a user, with a token of its own."""
        name = f"{re.sub(r'[^A-Za-z0-9.-]+', '-', user)}-{next(self._numbers)}.kubeconfig"
        path = self._running_layout.access.directory / name
        return self._running_layout.access.write_kubeconfig(path, self.server, self.token_for(user, groups), user)

    def request(self, method: str, path: str, body: object = None, *, content_type: str = "application/json") -> Any:
        """One request as administrator; the parsed answer, or ApiError."""
        if self._api is None:
            raise RuntimeError("the cluster is not running")
        return self._api.request(method, path, body, content_type=content_type)

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 180.0) -> str:
        """Run kubectl as administrator and return what it prints; CalledProcessError with its message if it fails."""
        command = [str(self.binaries.path("kubectl")), f"--kubeconfig={self.kubeconfig}", *arguments]
        # Its cache of the API's resources lies beside the cluster: two clusters on one port must not share one.
        environment = {**os.environ, "KUBECACHEDIR": str(self.directory / "access" / "kubectl-cache")}
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env=environment,
        )
        if done.returncode != 0:
            error = subprocess.CalledProcessError(done.returncode, ["kubectl", *arguments], done.stdout, done.stderr)
            error.add_note(done.stderr.strip())
            raise error
        return done.stdout

    # --- its nodes ---------------------------------------------------------------------------------------------------

    def add_nodes(self, line: str, *, wait: bool | None = None) -> list[str]:
        """Add KWOK nodes, such as `3 zone=a class=spot cpu=8 memory=32Gi`, and return their names.

        Waits until they are ready, unless `wait` is False or there is no KWOK that would make them so.
        """
        wanted = parse_node_line(line)
        taken = {node["metadata"]["name"] for node in self.request("GET", "/api/v1/nodes")["items"]}
        candidates = (f"{wanted.prefix}-{number}" for number in itertools.count())
        names = list(itertools.islice((name for name in candidates if name not in taken), wanted.count))
        for name in names:
            number = _NODE_ADDRESSES + next(self._numbers)
            address = ".".join(str(byte) for byte in number.to_bytes(4, "big"))
            self.request("POST", "/api/v1/nodes", _kwok_node(wanted.manifest(name, address, kubelet="kwok")))
        held_unready = wanted.annotations.get("controlplane.test/ready") == "false"
        if wait if wait is not None else self._runs("kwok") and not held_unready:
            self.wait_for(lambda: self._usable(names), f"nodes {', '.join(names)} to become ready")
        return names

    def remove_nodes(self, names: Iterable[str]) -> None:
        """Delete nodes and what runs on them, at once."""
        gone = set(names)
        # The nodes first, lest a controller's replacements for the pods move from one to the next.
        for name in gone:
            self._delete(f"/api/v1/nodes/{name}")
        places = {
            (pod["metadata"]["namespace"], pod["spec"]["nodeName"])
            for pod in self.request("GET", "/api/v1/pods")["items"]
            if pod["spec"].get("nodeName") in gone
        }
        for namespace, name in places:
            query = f"fieldSelector=spec.nodeName%3D{name}&gracePeriodSeconds=0"
            self._delete(f"/api/v1/namespaces/{namespace}/pods?{query}")

    def _usable(self, names: Sequence[str]) -> bool:
        wanted = set(names)
        ready = 0
        for node in self.request("GET", "/api/v1/nodes")["items"]:
            if node["metadata"]["name"] not in wanted:
                continue
            conditions = {condition["type"]: condition["status"] for condition in node["status"].get("conditions", ())}
            # The API server taints a new node; the node lifecycle controller takes that away once it is ready.
            waiting = any(taint["key"] == "node.kubernetes.io/not-ready" for taint in node["spec"].get("taints", ()))
            ready += conditions.get("Ready") == "True" and not (waiting and self._runs("controller-manager"))
        return ready == len(wanted)

    # --- its namespaces ----------------------------------------------------------------------------------------------

    def add_namespace(self, prefix: str = "test", labels: Mapping[str, str] | None = None) -> str:
        """A new namespace with a name of its own."""
        metadata = {"generateName": f"{prefix}-", "labels": dict(labels or {}), "finalizers": [_OURS_TO_CLEAR]}
        made = self.request("POST", "/api/v1/namespaces", {"metadata": metadata})
        name = str(made["metadata"]["name"])
        self.request("PUT", f"/api/v1/namespaces/{name}/finalize", made | {"spec": {"finalizers": []}})
        return name

    def remove_namespace(self, name: str) -> None:
        """Close a namespace of `add_namespace` for good and delete whatever would go on to act in it.

        Its pods vanish even where no node would let them go. Its name and records such as events stay: to look through every kind
        there is costs the namespace controller about seventy requests, more than many a test.
        """
        self._delete(f"/api/v1/namespaces/{name}")  # from now on the API server lets nobody create anything in it
        for collection in [*_THAT_ACT, *self._custom_kinds()]:
            version, kind = collection.rsplit("/", 1)
            self._delete(f"/{version}/namespaces/{name}/{kind}?gracePeriodSeconds=0")

    def _custom_kinds(self) -> list[str]:
        """The kinds in namespaces that somebody has defined here. One that is on its way out may be gone when it is asked for."""
        defined = self.request("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
        return [
            f"apis/{spec['group']}/{version}/{spec['names']['plural']}"
            for spec in (definition["spec"] for definition in defined)
            if spec["scope"] == "Namespaced"
            for version in [version["name"] for version in spec["versions"] if version["served"]][:1]
        ]

    def _delete(self, path: str) -> None:
        try:
            self.request("DELETE", path)
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    # --- its components ----------------------------------------------------------------------------------------------

    def process(self, component: str) -> Process:
        """The process of one of `COMPONENTS`, for its id and its log."""
        if component not in self._processes:
            known = ", ".join(self._processes)
            raise ValueError(f"this cluster has no component {component!r}: expected one of {known}")
        return self._processes[component]

    def stop_component(self, component: str, *, grace_seconds: float = 0.0) -> None:
        """End a component: at once, as in a crash, or with SIGTERM and a grace."""
        self.process(component).stop(grace_seconds=grace_seconds)

    def start_component(self, component: str) -> None:
        """Start a component that was stopped, on its old port and data, and wait until it is ready."""
        process = self.process(component)
        if component == "kwok":
            self._release_node_leases()
        process.start()
        self._wait_ready(component)

    def restart_component(self, component: str, *, grace_seconds: float = 0.0) -> None:
        """Stop and start."""
        self.stop_component(component, grace_seconds=grace_seconds)
        self.start_component(component)

    def pause(self, component: str) -> None:
        """Freeze a component: its connections stay open and nothing answers."""
        self.process(component).pause()

    def resume(self, component: str) -> None:
        """Let a frozen component go on."""
        self.process(component).resume()

    def wait_for(self, condition: Callable[[], bool], what: str, *, timeout: float | None = None) -> None:
        """Ask until a condition holds; TimeoutError if it does not, ComponentFailedError if a component has died."""
        limit = self._timeout if timeout is None else timeout
        deadline = time.monotonic() + limit
        pause = 0.005
        while not condition():
            for process in self._processes.values():
                process.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {limit:g} s in vain for {what}; logs: {self.logs}")
            time.sleep(pause)
            pause = min(pause * 1.3, 0.1)

    def _wait_ready(self, component: str) -> None:
        url = self._running_layout.health_url(component)
        try:
            self.wait_for(lambda: answers(url, self.ca_file), f"{component} to become ready")
            self._processes[component].check()
        except TimeoutError as error:
            raise ComponentFailedError(f"{error}\n{self._processes[component].last_words()}") from error

    def _release_node_leases(self) -> None:
        # A new KWOK is another holder, and would leave the nodes alone until the old one's leases run out.
        self._delete("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases")

    def _runs(self, component: str) -> bool:
        return component in self._processes and self._processes[component].running

    def _require(self, component: str, purpose: str) -> None:
        if not self._runs(component):
            raise RuntimeError(f"cannot {purpose}: the component {component!r} is not running")

    @property
    def _running_layout(self) -> Layout:
        if self._layout is None:
            raise RuntimeError("the cluster is not running")
        return self._layout


def _kwok_node(node: dict[str, Any]) -> dict[str, Any]:
    """Marked so that KWOK knows that it is its own to keep alive."""
    metadata = node["metadata"]
    annotations = {"kwok.x-k8s.io/node": "fake", **metadata.get("annotations", {})}
    return {**node, "metadata": {**metadata, "annotations": annotations}}


def _check_components(components: Mapping[str, bool], extra_args: Mapping[str, Sequence[str]]) -> None:
    for name in [*components, *extra_args]:
        if name not in COMPONENTS:
            raise ValueError(f"{name!r} is no component of the control plane: expected one of {', '.join(COMPONENTS)}")
    for name in ("etcd", "apiserver"):
        if not components.get(name, True):
            raise ValueError(f"a control plane without {name!r} cannot start; stop it afterwards with stop_component")
