"""A node that is not there yet will run pods of DaemonSets: they take their share of it, and other pods' rules see them."""

from __future__ import annotations

import pytest

from plimsoll.kube.types.core import Pod, Taint
from plimsoll.scheduling.model import ComingNode, Constraint, NodeOffering, Template
from plimsoll.scheduling.pack import pack
from tests.scheduling import menus
from tests.scheduling.cases import Case, node, offering, plan_of, pod
from tests.scheduling.checker import illegal_steps
from tests.scheduling.menus import HOSTNAME, ZONE, Fragment, apart, evenly, together

ROOM_FOR_ONE = {"cpu": "1", "memory": "1Gi", "pods": "9"}
PLENTY = menus.CAPACITIES[3]
RESERVED = Taint(key="dedicated", value="batch", effect="NoSchedule")
TOLERANT: Fragment = {"spec": {"tolerations": [{"operator": "Exists"}]}}
DAEMON = pod("daemon", menus.SIZES[0], {"metadata": {"labels": {"app": "d"}}})
OF_DAEMONS = {"labelSelector": {"matchLabels": {"app": "d"}}}

# Daemons that will not run on a node with the taint above and without labels.
STAY_AWAY = (
    pytest.param({}, id="does not tolerate the taint"),
    pytest.param({"spec": {**TOLERANT["spec"], "nodeSelector": {"disk": "ssd"}}}, id="selects other nodes"),
)


def sold(name: str, capacity: Fragment, price: float = 1.0, zone: str = "") -> NodeOffering:
    return offering(name, capacity, price, labels={ZONE: zone} if zone else {})


def placed(case: Case) -> dict[str, str]:
    """By pod: the template or the node that it goes to."""
    packing = pack(case.snapshot(), case.pending, case.templates, coming=case.coming, headroom=False)
    template_of = {new.name: new.template for new in packing.new_nodes}
    return {uid.removeprefix("uid-"): template_of.get(name, name) for uid, name in packing.placements.items()}


# ── their share ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("with_daemon", [False, True])
def test_what_they_take_of_a_coming_node_is_not_there_for_others(with_daemon: bool) -> None:
    size = sold("o", ROOM_FOR_ONE).allocatable
    coming = ComingNode("c", {}, size, daemons=(DAEMON,) if with_daemon else ())
    assert len(plan_of(Case(pending=(pod("p", menus.SIZES[1]),), coming=(coming,))).unplaced) == with_daemon


@pytest.mark.parametrize("daemon", STAY_AWAY)
def test_a_daemon_that_does_not_run_there_takes_nothing_of_a_coming_node(daemon: Fragment) -> None:
    size = sold("o", ROOM_FOR_ONE).allocatable
    coming = ComingNode("c", {}, size, taints=(RESERVED,), daemons=(pod("d", menus.SIZES[0], daemon),))
    assert placed(Case(pending=(pod("p", menus.SIZES[1], TOLERANT),), coming=(coming,))) == {"p": "c"}


@pytest.mark.parametrize("daemon", STAY_AWAY)
def test_a_daemon_that_does_not_run_there_takes_nothing_of_a_new_node(daemon: Fragment) -> None:
    daemons = (pod("d", menus.SIZES[0], daemon),)
    template = Template("t", (sold("o", ROOM_FOR_ONE),), taints=(RESERVED,), daemons=daemons)
    assert placed(Case(pending=(pod("p", menus.SIZES[1], TOLERANT),), templates=(template,))) == {"p": "t"}


def test_each_coming_node_has_its_own() -> None:
    size = sold("o", ROOM_FOR_ONE).allocatable
    coming = (ComingNode("with", {}, size, daemons=(DAEMON,)), ComingNode("without", {}, size))
    assert placed(Case(pending=(pod("p", menus.SIZES[1]),), coming=coming)) == {"p": "without"}


@pytest.mark.parametrize(
    ("condition", "effect"),
    [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
        ("network-unavailable", "NoSchedule"),
    ],
)
def test_they_run_on_nodes_in_trouble_as_their_controller_lets_them(condition: str, effect: str) -> None:
    taint = Taint(key=f"node.kubernetes.io/{condition}", effect=effect)
    tolerant = pod("p", menus.SIZES[1], TOLERANT)
    template = Template("t", (sold("o", ROOM_FOR_ONE),), taints=(taint,), daemons=(DAEMON,))
    assert pack(Case().snapshot(), [tolerant], [template]).unplaced[tolerant.uid]["t"].rule is Constraint.RESOURCES


def test_all_of_them_take_their_share() -> None:
    """A core for the pod, half a core for each of two daemons: what holds the pod and one of them does not hold all three."""
    small, large = (sold(cpu, {"cpu": cpu, "memory": "8Gi", "pods": "9"}, float(cpu)) for cpu in ("1.5", "2"))
    daemons = tuple(pod(f"d{n}", menus.SIZES[0]) for n in range(2))
    mine = pod("p", menus.SIZES[1])
    for number, wanted in ((0, "1.5"), (1, "1.5"), (2, "2")):
        template = Template("t", (small, large), daemons=daemons[:number])
        (new,) = pack(Case().snapshot(), [mine], [template], headroom=False).new_nodes
        assert new.offering == wanted
        assert new.requested["cpu"].milli == 1000 + 500 * number


def test_each_offering_has_those_that_select_it() -> None:
    """Of two templates with offerings of the same size, the daemon of the second runs on its first offering alone."""
    here: Fragment = {"spec": {"nodeSelector": {ZONE: "z1"}}}
    offerings = tuple(sold(zone, ROOM_FOR_ONE, price, zone) for zone, price in (("z1", 1.0), ("z2", 2.0)))
    taken = Template("other", offerings[:1], taints=(RESERVED,))
    template = Template("t", offerings, daemons=(pod("d", menus.SIZES[0], here),))
    packing = pack(Case().snapshot(), [pod("p", menus.SIZES[1])], [taken, template], headroom=False)
    assert [new.offering for new in packing.new_nodes] == ["z2"]


def test_each_template_has_its_own() -> None:
    with_daemon = Template("with", (sold("a", ROOM_FOR_ONE, 1.0),), daemons=(DAEMON,))
    without = Template("without", (sold("b", ROOM_FOR_ONE, 2.0),))
    for templates in ((with_daemon, without), (without, with_daemon)):
        assert placed(Case(pending=(pod("p", menus.SIZES[1]),), templates=templates)) == {"p": "without"}


def test_one_that_asks_for_what_no_offering_has_keeps_nobody_else_away() -> None:
    daemon = pod("d", {"spec": {"containers": [menus.container("driver", {"example.com/gpu": "1"})]}})
    template = Template("t", (sold("o", ROOM_FOR_ONE),), daemons=(daemon,))
    assert placed(Case(pending=(pod("p", menus.SIZES[1]),), templates=(template,))) == {"p": "t"}


def test_a_port_of_any_of_them_is_taken() -> None:
    daemons = (pod("d1", menus.SIZES[6]), pod("d2", menus.SIZES[6], menus.HOST_PORTS[0]))
    template = Template("t", (sold("o", PLENTY),), daemons=daemons)
    assert why_not(pod("p", menus.SIZES[0], menus.HOST_PORTS[0]), template) is Constraint.HOST_PORT


# ── what they mean to others ─────────────────────────────────────────────────────────────────────────────────────────


def cheap_with_daemon_and_dear_without(daemon: Fragment) -> tuple[Template, Template]:
    cheap = Template("with", (sold("cheap", PLENTY, 1.0, "z1"),), daemons=(pod("d", menus.SIZES[0], daemon),))
    return cheap, Template("without", (sold("dear", PLENTY, 9.0, "z2"),))


APP_A: Fragment = {"metadata": {"labels": {"app": "a"}}}
AS_DAEMON: Fragment = {"metadata": {"labels": {"app": "d"}}}
WITH_PORT = menus.HOST_PORTS[0]


@pytest.mark.parametrize(
    ("mine", "daemons"),
    [
        pytest.param(apart({"topologyKey": HOSTNAME, **OF_DAEMONS}), AS_DAEMON, id="the pod wants to be apart"),
        pytest.param(apart({"topologyKey": ZONE, **OF_DAEMONS}), AS_DAEMON, id="by zone"),
        pytest.param(APP_A, apart(menus.NEIGHBOURS[1]), id="the daemon wants to be apart"),
        pytest.param(APP_A, apart(menus.NEIGHBOURS[0]), id="the daemon, by zone"),
        pytest.param(WITH_PORT, WITH_PORT, id="both want the same port"),
    ],
)
def test_who_must_not_meet_them_goes_elsewhere(mine: Fragment, daemons: Fragment) -> None:
    templates = cheap_with_daemon_and_dear_without(daemons)
    mine_alone = pod("p", menus.SIZES[0], mine)
    assert placed(Case(pending=(mine_alone,), templates=templates)) == {"p": "without"}
    reason = Constraint.HOST_PORT if mine is WITH_PORT else Constraint.POD_ANTI_AFFINITY
    assert why_not(mine_alone, templates[0]) is reason


def why_not(mine: Pod, template: Template) -> Constraint:
    return pack(Case().snapshot(), [mine], [template]).unplaced[mine.uid][template.name].rule


def test_nobody_is_said_to_be_kept_away_by_a_label_that_no_node_has() -> None:
    mine = pod("p", menus.SIZES[0], apart({"topologyKey": "rack", **OF_DAEMONS}))
    none_left = Template("t", (sold("o", PLENTY),), daemons=(DAEMON,), max_nodes=0)
    assert why_not(mine, none_left) is Constraint.LIMIT


def test_who_must_not_meet_them_does_not_go_to_a_node_that_is_coming_with_one() -> None:
    size = sold("o", PLENTY).allocatable
    coming = (ComingNode("with", {}, size, daemons=(DAEMON,)), ComingNode("without", {}, size))
    mine = pod("p", menus.SIZES[0], apart({"topologyKey": HOSTNAME, **OF_DAEMONS}))
    assert placed(Case(pending=(mine,), coming=coming)) == {"p": "without"}


@pytest.mark.parametrize("topology_key", [HOSTNAME, ZONE])
def test_who_wants_their_company_goes_where_they_will_be(topology_key: str) -> None:
    cheap, dear = cheap_with_daemon_and_dear_without(AS_DAEMON)
    wants_them = pod("p", menus.SIZES[0], together({"topologyKey": topology_key, **OF_DAEMONS}))
    swapped = (Template("with", dear.offerings, daemons=cheap.daemons), Template("without", cheap.offerings))
    assert placed(Case(pending=(wants_them,), templates=swapped)) == {"p": "with"}


def test_the_company_of_one_of_them_is_enough() -> None:
    template = Template("t", (sold("o", PLENTY),), daemons=(pod("other", menus.SIZES[6]), DAEMON))
    wants_one = pod("p", menus.SIZES[0], together({"topologyKey": HOSTNAME, **OF_DAEMONS}))
    assert placed(Case(pending=(wants_one,), templates=(template,))) == {"p": "t"}


def test_a_port_is_taken_on_the_offerings_alone_that_the_daemon_selects() -> None:
    here: Fragment = {"spec": {"nodeSelector": {ZONE: "z1"}}}
    offerings = tuple(sold(zone, PLENTY, price, zone) for zone, price in (("z1", 1.0), ("z2", 2.0)))
    template = Template("t", offerings, daemons=(pod("d", WITH_PORT, here),))
    packing = pack(Case().snapshot(), [pod("p", WITH_PORT)], [template], headroom=False)
    assert [new.offering for new in packing.new_nodes] == ["z2"]


def test_who_wants_more_than_their_company_is_not_content_with_it() -> None:
    cheap, _ = cheap_with_daemon_and_dear_without(AS_DAEMON)
    never_there = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "nobody"}}}
    mine = pod("p", menus.SIZES[0], together({"topologyKey": HOSTNAME, **OF_DAEMONS}, never_there))
    assert why_not(mine, cheap) is Constraint.POD_AFFINITY


def test_as_many_of_them_come_to_each_zone_as_a_spread_allows() -> None:
    """The pods that have the spread do not count in it themselves, but each of them needs a node, which brings one along."""
    offerings = tuple(sold(zone, ROOM_FOR_ONE, price, zone) for zone, price in (("z1", 1.0), ("z2", 1.5)))
    template = Template("t", offerings, daemons=(pod("d", menus.SIZES[6], AS_DAEMON),))
    spread = evenly({"topologyKey": ZONE, **OF_DAEMONS})
    plan = plan_of(Case(pending=tuple(pod(f"p{n}", menus.SIZES[1], spread) for n in range(4)), templates=(template,)))
    assert sorted(new.offering for new in plan.packing.new_nodes) == ["z1", "z1", "z2", "z2"]
    assert not illegal_steps(plan.before, plan.placements)


def test_they_count_in_spreads() -> None:
    """Two nodes in the first zone bring two along: a third would be too many beside an empty second zone."""
    spread = evenly({"topologyKey": ZONE, **OF_DAEMONS})
    first = Template("with", (sold("z1", ROOM_FOR_ONE, 1.0, "z1"),), daemons=(pod("d", menus.SIZES[6], AS_DAEMON),))
    at_hand = node("empty", menus.CAPACITIES[0], zone="z2")
    large = tuple(pod(f"large-{n}", menus.SIZES[1], {"spec": {"nodeSelector": {ZONE: "z1"}}}) for n in range(2))
    spread_out = pod("p", menus.SIZES[6], AS_DAEMON, spread)
    assert placed(Case(nodes=(at_hand,), pending=(*large, spread_out), templates=(first,)))["p"] == "empty"


def test_those_of_a_node_that_is_not_made_after_all_count_nowhere() -> None:
    """The first pod has a node opened in vain, for it must not meet the daemon; the second may go to that zone."""
    tried = Template("with", (sold("o", PLENTY, 1.0, "z1"),), daemons=(DAEMON,))
    avoids_host = pod("first", menus.SIZES[1], apart({"topologyKey": HOSTNAME, **OF_DAEMONS}))
    avoids_zone = pod("second", menus.SIZES[6], apart({"topologyKey": ZONE, **OF_DAEMONS}))
    at_hand = node("full", {"cpu": "500m", "memory": "1Gi", "pods": "9"}, zone="z1")
    case = Case(nodes=(at_hand,), pending=(avoids_host, avoids_zone), templates=(tried,))
    assert placed(case) == {"second": "full"}
