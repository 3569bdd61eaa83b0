"""`explain` names what blocks the removal of a node before anyone wants to remove it."""

from __future__ import annotations

from plimsoll.config import Config
from plimsoll.explain.records import DecisionExplanation
from plimsoll.explain.targets import Explainer, key_of
from tests.nodegroups.test_checks import world_with


def test_everything_that_keeps_a_node() -> None:
    world = world_with({"volumes": [{"name": "cache", "emptyDir": {}}]}, minNodes=1)
    name = next(member.name for member in world.members() if member.spec.node_group_name == "workers")
    view = world.api.view()
    answer = Explainer(Config()).explain(key_of(f"vn/{name}", "", view), view, world.now)
    assert isinstance(answer, DecisionExplanation)
    assert answer.controller == "nodegroups"
    codes = {blocker.code for blocker in answer.blockers}
    assert codes == {"NodeGroupMinSizeReached", "LocalStorageRequested", "NoPlaceToMovePods"}
