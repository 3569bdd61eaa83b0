"""Every scenario on the real control plane as the ServiceAccount of an installation: `make rights`.

Wherever a test starts an operator it asks here for a kubeconfig. Usually that is the administrator's, and nothing else
happens. With RIGHTS=1 it is one of an account that has what `plimsoll manifests` grants for the test's configuration and no
more; a test during which the API server refused such an account anything fails. With RIGHTS=all, a right that no test of the
whole run has used fails the run.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from plimsoll.config import Config
from plimsoll.controllers.build import controllers as controllers_of
from plimsoll.controllers.placement.webhook_configuration import url_configuration
from plimsoll.manifests.install import manifests
from plimsoll.manifests.objects import Manifest
from plimsoll.runtime.decision import Controller
from plimsoll.runtime.operator import watched_by
from tests.rbac.audit import ACCOUNT, Asked, AuditLogs
from tests.rbac.judge import Grant, granted
from tools.controlplane.api import ApiError
from tools.controlplane.cluster import ControlPlane

ASKED_FOR = os.environ.get("RIGHTS", "")
RBAC = "/apis/rbac.authorization.k8s.io/v1"
_HOME = "HOME"  # stands for the name of the operator's namespace, which differs from test to test


class Judged:
    """What the accounts of this run were granted, and what they made of it."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="plimsoll-rights-"))
        self.logs = AuditLogs(self.directory)
        self.homes: set[str] = set()
        self.rights: set[Grant] = set()
        self.asked: set[Asked] = set()

    def grant(self, home: str, rights: set[Grant]) -> None:
        self.homes.add(home)
        self.rights |= {_anywhere(one, home) for one in rights}

    def denied(self) -> list[str]:
        """What was refused since the last time. Accounts that a test made by itself are that test's to judge."""
        new = set(self.logs.new())
        self.asked |= {replace(_at_home(one), name=one.name.replace(one.home, _HOME)) for one in new if one.allowed}
        return sorted({str(one) for one in new if not one.allowed and one.home in self.homes})

    def remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    def unused(self) -> list[Grant]:
        return sorted(right for right in self.rights if not any(right.covers(one) for one in self.asked))


def _anywhere(right: Grant, home: str) -> Grant:
    """Namespaces apart, of which each test has its own."""
    return replace(right, namespace="", name=right.name.replace(home, _HOME))


def _at_home(asked: Asked) -> Asked:
    return replace(asked, home="", namespace="")


JUDGED = Judged() if ASKED_FOR else None


def kubeconfig_of_the_operator(
    cluster: ControlPlane, settings: Config, controllers: Sequence[Controller] | None = None
) -> Path:
    """As whom an operator with these settings talks to the API server."""
    if JUDGED is None:
        return Path(cluster.kubeconfig)
    home, running = settings.operator.namespace, controllers or controllers_of(settings)
    # Tests are asked at an address outside of the cluster; an installation is asked through a Service, and has rights for that.
    mode = "off" if settings.webhook.mode == "off" else "service"
    installed = msgspec.structs.replace(settings, webhook=msgspec.structs.replace(settings.webhook, mode=mode))
    printed = manifests(installed, running, seen=watched_by(running), settings={}, image="none")
    rights = [one for one in printed if one["kind"] in ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")]
    JUDGED.grant(home, granted(rights))
    if settings.webhook.mode == "url":
        rights += _registration_by_address(rights, home)
    with suppress(ApiError):  # most tests have made it already
        cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": home}})
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": home}}
    text = yaml.safe_dump_all([account, *rights])
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)
    _in_force(cluster, home, rights)
    return _kubeconfig(cluster, home)


def _registration_by_address(rights: Sequence[Manifest], home: str) -> list[Manifest]:
    """What a person's own credentials allow who runs the operator outside of the cluster, on top of an installation's rights."""
    group, kind = "admissionregistration.k8s.io", "mutatingwebhookconfigurations"
    named = [url_configuration(home)]
    rules: list[dict[str, Any]] = [
        {"apiGroups": [group], "resources": [kind], "verbs": ["create"]},
        {"apiGroups": [group], "resources": [kind], "verbs": ["get", "patch", "delete"], "resourceNames": named},
    ]
    role, binding = (
        next(one for one in rights if one["kind"] == kind) for kind in ("ClusterRole", "ClusterRoleBinding")
    )
    name = f"by-address.{home}"
    return [
        {**role, "metadata": {"name": name}, "rules": rules},
        {**binding, "metadata": {"name": name}, "roleRef": {**binding["roleRef"], "name": name}},
    ]


def _in_force(cluster: ControlPlane, home: str, rights: Sequence[Manifest]) -> None:
    """The API server reads roles and bindings with a delay of its own."""
    user = f"system:serviceaccount:{home}:{ACCOUNT}"

    def allowed(right: Grant) -> bool:
        kind, _, part = right.resource.partition("/")
        asked = {"group": right.group, "resource": kind, "subresource": part, "verb": right.verb,
                 "namespace": right.namespace, "name": right.name}  # fmt: skip
        review = {"spec": {"user": user, "resourceAttributes": asked}}
        answer = cluster.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return bool(answer["status"]["allowed"])

    for role in rights:
        if "rules" in role:
            for right in granted([role]):
                cluster.wait_for(lambda right=right: allowed(right), f"the right to {right}")  # type: ignore[misc]


def _kubeconfig(cluster: ControlPlane, home: str) -> Path:
    path = f"/api/v1/namespaces/{home}/serviceaccounts/{ACCOUNT}/token"
    token = cluster.request("POST", path, {"spec": {"expirationSeconds": 7200}})["status"]["token"]
    known = yaml.safe_load(Path(cluster.kubeconfig).read_text())
    known["users"][0]["user"] = {"token": token}
    assert JUDGED is not None
    file = JUDGED.directory / f"{home}.kubeconfig"
    file.write_text(yaml.safe_dump(known))
    return file


def audited(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a control plane that writes down what accounts ask for."""
    if JUDGED is None:
        return arguments
    extra = dict(arguments.get("extra_args") or {})
    extra["apiserver"] = [*extra.get("apiserver", ()), *JUDGED.logs.flags()]
    return {**arguments, "extra_args": extra}


@pytest.fixture(autouse=True)
def _nothing_is_denied() -> Iterator[None]:
    yield
    if JUDGED is not None and (denied := JUDGED.denied()):
        pytest.fail("the installation's account was refused: " + "; ".join(denied), pytrace=False)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if ASKED_FOR == "all" and JUDGED is not None and JUDGED.unused() and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if JUDGED is None:
        return
    unused = JUDGED.unused()
    terminalreporter.write_line(
        f"rights: {len(JUDGED.homes)} installations, {len(JUDGED.rights)} rights, {len(unused)} of them not used"
    )
    for right in unused:
        terminalreporter.write_line(f"  unused: {right}", red=ASKED_FOR == "all")
    JUDGED.remove()
