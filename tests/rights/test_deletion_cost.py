"""Deletion cost with its own rights: every one of them is used, and no other is asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plimsoll.deletion_cost.spec import ENABLED
from plimsoll.deletion_cost.values import COST
from tests.eventually import eventually
from tests.rights.account import Account, installed
from tests.rights.judge import Grant
from tools.controlplane.cluster import ControlPlane

DELETION_COST = ("--controllers", "deletion-cost")


def deployment(name: str) -> dict[str, Any]:
    labels = {"app": name}
    spec = {"containers": [{"name": "main", "image": "example.org/none"}], "terminationGracePeriodSeconds": 0}
    return {
        "metadata": {"name": name, "annotations": {ENABLED: "true"}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


async def costs(account: Account, namespace: str) -> list[str]:
    pods = (await account.direct.get(f"/api/v1/namespaces/{namespace}/pods"))["items"]
    return [pod["metadata"].get("annotations", {}).get(COST, "") for pod in pods]


@pytest.mark.parametrize("everywhere", [True, False], ids=["everywhere", "one watched namespace"])
async def test_deletion_cost(
    control_plane: ControlPlane,
    namespace: str,
    home: str,
    kwok_nodes: Callable[[str], list[str]],
    tmp_path: Path,
    everywhere: bool,
):
    kwok_nodes("1 zone=a")
    watched = () if everywhere else ("--set", f"operator.watchNamespaces={namespace}")
    async with installed(control_plane, tmp_path, *DELETION_COST, *watched, home=home) as account:
        account.lose_the_reply("patch", "pods")
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        await account.direct.create(path, deployment("web"))
        await eventually(lambda: _all_have_one(account, namespace), "both pods have a cost")
        await account.asked_for("get", "pods")

        async def ask(enabled: str) -> None:
            await account.direct.patch(f"{path}/web", {"metadata": {"annotations": {ENABLED: enabled}}})

        await account.repeats_an_event(lambda: ask("perhaps"), lambda: ask("true"))
    assert account.complaints() == []
    superfluous = Grant("", "pods", "delete")
    account.grants.add(superfluous)
    assert account.complaints() == [f"unused: {superfluous}"]


async def _all_have_one(account: Account, namespace: str) -> bool:
    found = await costs(account, namespace)
    return len(found) == 2 and all(found)


async def test_a_right_that_is_missing_is_noticed(
    control_plane: ControlPlane, namespace: str, home: str, kwok_nodes: Callable[[str], list[str]], tmp_path: Path
):
    kwok_nodes("1 zone=a")

    def writing_pods(grant: Grant) -> bool:
        return (grant.resource, grant.verb) == ("pods", "patch")

    async with installed(control_plane, tmp_path, *DELETION_COST, home=home, without=writing_pods) as account:
        await account.direct.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment("web"))
        await account.asked_for("patch", "pods")
    assert any(one.startswith("denied: patch pods") for one in account.complaints())
