"""Deletion cost with its own rights, and the dashboard that asks who looks: every one of them is used, and no other is asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from plimsoll.controllers.deletion_cost.spec import ENABLED
from plimsoll.controllers.deletion_cost.values import COST
from tests.eventually import eventually
from tests.rbac.account import Account, installed
from tests.rbac.judge import Grant
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
    setting = "dashboard.access=token" if everywhere else f"operator.watchNamespaces={namespace}"
    async with installed(control_plane, tmp_path, *DELETION_COST, "--set", setting, home=home) as account:
        account.lose_the_reply("patch", "pods")
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        await account.direct.create(path, deployment("web"))
        await eventually(lambda: _all_have_one(account, namespace), "both pods have a cost")
        await account.asked_for("get", "pods")

        async def ask(enabled: str) -> None:
            await account.direct.patch(f"{path}/web", {"metadata": {"annotations": {ENABLED: enabled}}})

        await account.repeats_an_event(lambda: ask("perhaps"), lambda: ask("true"))
        if everywhere:
            await _is_looked_at(account, control_plane, home)
    assert account.complaints() == []
    superfluous = Grant("", "pods", "delete")
    account.grants.add(superfluous)
    assert account.complaints() == [f"unused: {superfluous}"]


async def _is_looked_at(account: Account, control_plane: ControlPlane, home: str) -> None:
    """By someone with the role that is there for people, and by someone without."""
    ann, bob = (control_plane.token_for(f"{home}-{name}") for name in ("ann", "bob"))
    role = ("--clusterrole", f"plimsoll-dashboard-viewer.{home}", "--user", f"{home}-ann")
    control_plane.kubectl("create", "clusterrolebinding", f"{home}-ann", *role)
    try:
        url = (await account.operator.logged("serving the dashboard"))["url"]
        async with aiohttp.ClientSession() as web:

            async def status(token: str) -> int:
                async with web.get(f"{url}api/v1/picture", headers={"Authorization": f"Bearer {token}"}) as response:
                    return response.status

            async def ann_sees_it() -> bool:
                return await status(ann) == 200

            await eventually(ann_sees_it, "ann is let in")
            assert await status(bob) == 403
    finally:
        control_plane.kubectl("delete", "clusterrolebinding", f"{home}-ann")


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
