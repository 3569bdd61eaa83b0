"""What another controller knows to hold something on a node keeps it, seen or only read live; and is watched once."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from msgspec.structs import replace

from plimsoll.config import Config, Controllers
from plimsoll.controllers.allocation.container_nodes import BY_AFFINITY, WEKA_CONTAINERS
from plimsoll.controllers.allocation.types import WekaContainer
from plimsoll.controllers.build import controllers
from plimsoll.controllers.nodegroups.holders import Holders
from plimsoll.controllers.nodegroups.lifecycle.termination import Termination, termination_step
from plimsoll.controllers.nodegroups.patches import DRAIN_TAINT
from plimsoll.controllers.nodegroups.types import VPSIE_NODE, VPSieNode
from plimsoll.kube.codec import convert
from plimsoll.kube.types.core import NodeSpec, Taint
from plimsoll.runtime.decision import DeleteMachine, Reason
from plimsoll.runtime.transaction import ConcurrentWrites, End, Found, ListAll, Listed, Moment, TransactionStarted
from tests import build

NOW = Moment(datetime(2026, 1, 1, tzinfo=UTC), 0.0)
HOLDERS = Holders(WEKA_CONTAINERS, BY_AFFINITY)


def container(node: str) -> WekaContainer:
    meta = {"name": "drives", "namespace": "storage", "uid": "1", "resourceVersion": "1"}
    return convert({"metadata": meta, "spec": {"nodeAffinity": node}}, WekaContainer)


def test_every_kind_is_watched_once() -> None:
    running = controllers(Config(controllers=Controllers(enabled=("nodegroups", "allocation", "placement"))))
    watched = {resource for one in running for resource in one.watches}
    twice = [plural for plural, times in Counter(resource.plural for resource in watched).items() if times > 1]
    assert twice == []


def last_word(*, holds: str) -> End | ConcurrentWrites:
    """Of the conversation that gives the machine of the node n1 back, with a container on the node `holds`."""
    meta = {"name": "n1", "namespace": "default", "uid": "m", "resourceVersion": "1"}
    member = convert({"metadata": meta, "status": {"phase": "Deleting"}}, VPSieNode)
    state = Termination(member, "m1", Reason("GivingBack", ""), HOLDERS)
    spec = NodeSpec(taints=(Taint(key=DRAIN_TAINT, effect="NoSchedule"),))
    node = replace(build.node("n1", labels={VPSIE_NODE: "n1"}), spec=spec)
    state, _ = termination_step(state, TransactionStarted(NOW, "token"))
    state, _ = termination_step(state, Found(NOW, node))
    state, request = termination_step(state, Listed(NOW, ()))
    assert request == ListAll(WEKA_CONTAINERS)
    _, request = termination_step(state, Listed(NOW, (container(holds),)))
    assert isinstance(request, End | ConcurrentWrites)
    return request


def test_a_holder_that_is_read_live_keeps_the_machine() -> None:
    refused = last_word(holds="n1")
    assert isinstance(refused, End)
    assert refused.blocker is not None
    assert refused.blocker.code == "AllocationOnNode"
    assert "WekaContainer storage/drives" in refused.blocker.message


def test_one_on_another_node_does_not() -> None:
    asked = last_word(holds="n2")
    assert isinstance(asked, ConcurrentWrites)
    assert isinstance(asked.writes[0], DeleteMachine)
