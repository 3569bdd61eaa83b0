"""What an installation is allowed to do follows from what its controllers declare, and is no more than that."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, ClassVar, Literal

import pytest
import yaml

from plimsoll.config import Allocation, Config, Controllers, LeaderElectionConfig, OperatorConfig, Web, Webhook
from plimsoll.config.providers import Providers, Vpsie
from plimsoll.controllers.build import controllers
from plimsoll.controllers.placement.webhook_configuration import url_configuration
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import DEPLOYMENTS, NODES, PODS, REPLICASETS, Key, Resource
from plimsoll.manifests.install import manifests
from plimsoll.manifests.objects import Manifest, as_yaml
from plimsoll.runtime.decision import Controller, Decision, Permission, Reason


class Sorting:
    name: ClassVar[str] = "deletion-cost"
    watches: ClassVar[tuple[Resource[Any], ...]] = (PODS, NODES, REPLICASETS)
    permissions: ClassVar[tuple[Permission, ...]] = (Permission("", "pods", "patch"),)

    def keys(self, resource: Resource[Any], changed: KubeObject, view: View) -> Iterable[Key]:
        return ()

    def decide(self, key: Key, view: View, now: datetime) -> Decision:
        return Decision(reason=Reason("Nothing", "an example"))


class Growing(Sorting):
    name: ClassVar[str] = "nodegroups"


class Moving(Sorting):
    name: ClassVar[str] = "placement"
    watches: ClassVar[tuple[Resource[Any], ...]] = (PODS, NODES, DEPLOYMENTS)
    permissions: ClassVar[tuple[Permission, ...]] = (
        Permission("", "pods/eviction", "create"),
        Permission("", "nodes", "patch"),
    )


def render(config: Config | None = None, controllers: tuple[Controller, ...] = (Sorting(), Moving())) -> list[Manifest]:
    seen = tuple(dict.fromkeys(kind for controller in controllers for kind in controller.watches))
    return manifests(
        config or Config(), controllers, seen=seen, settings={"web": {"host": "*"}}, image="registry/plimsoll:1"
    )


def the(kind: str, found: list[Manifest]) -> Manifest:
    (only,) = [manifest for manifest in found if manifest["kind"] == kind]
    return only


def everywhere(found: list[Manifest]) -> Manifest:
    """What the controllers see and do."""
    return the("ClusterRole", [one for one in found if one["metadata"]["name"] == "plimsoll.plimsoll-system"])


def granted(role: Manifest) -> set[tuple[str, str, str]]:
    return {
        (group, kind, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for kind in rule["resources"]
        for verb in rule["verbs"]
    }


SEE = ("list", "watch")
SEEN = {("", "pods"), ("", "nodes"), ("apps", "replicasets"), ("apps", "deployments")}
EVENTS = {("events.k8s.io", "events", "create"), ("events.k8s.io", "events", "patch")}


def test_rights_are_exactly_what_is_watched_and_written() -> None:
    assert granted(everywhere(render())) == {(*kind, verb) for kind in SEEN for verb in SEE} | EVENTS | {
        ("", "pods", "patch"),
        ("", "pods/eviction", "create"),
        ("", "nodes", "patch"),
    }


def test_a_controller_that_is_off_takes_its_rights_along() -> None:
    rights = granted(everywhere(render(controllers=(Sorting(),))))
    assert ("", "pods/eviction", "create") not in rights
    assert not {right for right in rights if right[1] == "deployments"}


def test_the_lease_and_the_memory_are_rights_at_home_only() -> None:
    role = the(
        "Role", render(Config(operator=OperatorConfig(leader_election=LeaderElectionConfig(lease_name="captain"))))
    )
    assert role["metadata"]["namespace"] == "plimsoll-system"
    assert granted(role) == {("", "configmaps", verb) for verb in ("create", "get", "list", "patch")} | {
        ("coordination.k8s.io", "leases", verb) for verb in ("create", "get", "patch")
    }
    assert [rule["resourceNames"] for rule in role["rules"] if "get" in rule["verbs"] and "resourceNames" in rule] == [
        ["captain"]
    ]
    without = the("Role", render(Config(operator=OperatorConfig(leader_election=LeaderElectionConfig(enabled=False)))))
    assert not {right for right in granted(without) if right[1] == "leases"}


def test_makers_of_machines_have_rights_only_where_they_are_in_use() -> None:
    def of(**providers: Any) -> dict[tuple[str, str], Manifest]:
        found = render(Config(providers=Providers(**providers)), (Growing(),))
        named = {(m["kind"], m["metadata"]["name"].removeprefix("plimsoll-")): m for m in found if "rules" in m}
        return {(kind, name.removesuffix(".plimsoll-system")): one for (kind, name), one in named.items()}

    vpsie = of(vpsie=Vpsie(secret_name="mine", secret_namespace="safe"))
    assert vpsie["Role", "vpsie"]["metadata"]["namespace"] == "safe"
    assert vpsie["Role", "vpsie"]["rules"] == [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["mine"]}
    ]
    assert not {("Role", "vpsie-orders"), ("Role", "kwok"), ("ClusterRole", "kwok")} & set(vpsie)
    orders = of(vpsie=Vpsie(order="cluster-nodes"))["Role", "vpsie-orders"]
    assert orders["metadata"]["namespace"] == "plimsoll-system"
    assert {kind for _, kind, _ in granted(orders)} == {"configmaps"}
    kwok = of(enabled=("kwok",))
    assert ("Role", "vpsie") not in kwok
    assert {kind for _, kind, _ in granted(kwok["ClusterRole", "kwok"])} == {"nodes"}
    assert {kind for _, kind, _ in granted(kwok["Role", "kwok"])} == {"configmaps"}


@pytest.mark.parametrize("mode", ["off", "service"])
def test_a_registration_that_a_crash_left_behind_may_be_taken_away_in_every_mode(
    mode: Literal["off", "service"],
) -> None:
    rules = [rule for role in render(Config(webhook=Webhook(mode=mode))) for rule in role.get("rules", ())]
    (only,) = [rule for rule in rules if rule.get("resourceNames") == [url_configuration("plimsoll-system")]]
    assert (only["resources"], only["verbs"]) == (["mutatingwebhookconfigurations"], ["delete", "get"])
    without_placement = render(Config(webhook=Webhook(mode=mode)), (Sorting(),))
    assert not [one for one in without_placement if "webhook" in one["metadata"]["name"]]


def test_read_only_means_no_right_to_write() -> None:
    found = render(Config(operator=OperatorConfig(read_only_mode=True)))
    roles = [manifest for manifest in found if "rules" in manifest]
    assert {verb for role in roles for _, _, verb in granted(role)} == set(SEE)


def test_watched_namespaces_turn_cluster_wide_rights_into_local_ones() -> None:
    found = render(Config(operator=OperatorConfig(watch_namespaces=("shop", "bank"))))
    assert granted(everywhere(found)) == {("", "nodes", verb) for verb in (*SEE, "patch")}
    local = {m["metadata"]["namespace"]: granted(m) for m in found if m["kind"] == "Role"}
    assert set(local) == {"shop", "bank", "plimsoll-system", "default"}
    assert local["default"] == EVENTS, "where events about namespaces are kept"
    alone = render(Config(operator=OperatorConfig(watch_namespaces=("shop",))), (Sorting(),))
    assert "default" not in {m["metadata"]["namespace"] for m in alone if m["kind"] == "Role"}, (
        "only placement tells such"
    )
    assert local["shop"] >= EVENTS
    assert local["shop"] == local["bank"] >= {("", "pods", "watch"), ("", "pods/eviction", "create")}
    assert not {right for right in local["shop"] if right[1] == "nodes"}


def test_leases_of_allocation_are_rights_in_their_namespace_only() -> None:
    config = Config(controllers=Controllers(enabled=("allocation",)), allocation=Allocation(namespace="storage"))
    found = render(config, controllers(config))
    (role,) = [m for m in found if m["kind"] == "Role" and m["metadata"]["namespace"] == "storage"]
    leases = {("coordination.k8s.io", "leases", verb) for verb in ("create", "delete", "get", "list", "patch")}
    assert granted(role) == leases
    assert not leases & granted(the("ClusterRole", found))


def test_every_binding_binds_a_role_that_is_there_to_our_account() -> None:
    found = render(Config(operator=OperatorConfig(namespace="capacity", watch_namespaces=("shop",))))
    roles = {(m["kind"], m["metadata"].get("namespace"), m["metadata"]["name"]) for m in found if "rules" in m}
    bindings = [m for m in found if m["kind"].endswith("Binding")]
    assert {(b["roleRef"]["kind"], b["metadata"].get("namespace"), b["roleRef"]["name"]) for b in bindings} == roles
    account = the("ServiceAccount", found)["metadata"]
    for binding in bindings:
        subject = {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
        assert binding["subjects"] == [subject]
    assert account["namespace"] == "capacity"


@pytest.mark.parametrize("config", [Config(), Config(operator=OperatorConfig(watch_namespaces=("shop",)))])
def test_no_wildcards_anywhere_in_the_rights(config: Config) -> None:
    for role in render(config):
        for right in granted(role) if "rules" in role else ():
            assert "*" not in right


def test_the_pod_is_as_locked_in_as_it_can_be() -> None:
    deployment = the("Deployment", render(Config(web=Web(port=9090))))
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert deployment["spec"]["replicas"] == 2
    assert container["image"] == "registry/plimsoll:1"
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["enableServiceLinks"] is False
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "web"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "web"}
    assert container["ports"] == [{"name": "web", "containerPort": 9090}]
    assert the("Service", render(Config(web=Web(port=9090))))["spec"]["ports"][0]["port"] == 9090


def test_another_configuration_starts_new_pods() -> None:
    def digest(settings: dict[str, Any]) -> str:
        found = manifests(Config(), (), seen=(), settings=settings, image="x")
        return str(the("Deployment", found)["spec"]["template"]["metadata"]["annotations"])

    assert digest({"web": {"port": 1}}) == digest({"web": {"port": 1}}) != digest({"web": {"port": 2}})


def test_yaml_reads_back_as_the_same_objects_with_the_file_as_lines() -> None:
    found = render()
    text = "---\n".join(as_yaml(manifest) for manifest in found)
    assert list(yaml.safe_load_all(text)) == found
    assert "plimsoll.yaml: |\n    web:\n      host: '*'\n" in text
    assert not [line for line in text.splitlines() if "&id" in line or "*id" in line]
