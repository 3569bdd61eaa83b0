"""What placement asks of the runtime: limits that an eviction brings along, and counters that a decision raises."""

from __future__ import annotations

from datetime import timedelta

from plimsoll.disruption.ledger import Disruption, DisruptionLedger
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.resources import BUDGETS, DEPLOYMENTS, PODS, REPLICASETS, STATEFULSETS, Key
from plimsoll.runtime.decision import Counter, DisruptionLimits
from plimsoll.runtime.metrics import Metrics
from tests import build

HOUR = timedelta(hours=1)
WEB = Key("Deployment", "default", "web")


def refused(ledger: DisruptionLedger, now: float, within: DisruptionLimits | None) -> str | None:
    web = build.deployment("web", replicas=3)
    owner = build.replica_set("web-1", replicas=3, owner=web)
    pods = [build.pod(f"p{number}", owner=owner) for number in range(3)]
    view = View.of({PODS: pods, DEPLOYMENTS: [web], REPLICASETS: [owner], STATEFULSETS: [], BUDGETS: []})
    blocker = ledger.refusal(pods[0], view, now, workload=WEB, within=within)
    return blocker.code if blocker else None


def test_an_eviction_may_bring_stricter_limits_along_which_bind_it_alone():
    ledger = DisruptionLedger(DisruptionLimits(10, 10, HOUR))
    ledger.recall(())
    for number in range(3):
        ledger.enter(Disruption(WEB, f"default/gone-{number}", f"gone-{number}", 100.0 + number))
    assert refused(ledger, 110.0, None) is None
    assert refused(ledger, 110.0, DisruptionLimits(4, 4, HOUR)) is None
    assert refused(ledger, 110.0, DisruptionLimits(3, 10, HOUR)) == "DisruptionLimit"
    assert refused(ledger, 110.0, DisruptionLimits(10, 3, HOUR)) == "DisruptionLimit"
    assert refused(ledger, 110.0, DisruptionLimits(3, 3, timedelta(seconds=8))) is None, "two of them within 8 s"


def test_a_limit_with_a_longer_period_than_that_for_all_still_sees_so_far_back():
    ledger = DisruptionLedger(DisruptionLimits(1, 1, timedelta(minutes=1)), longest_period=HOUR)
    ledger.recall(())
    ledger.enter(Disruption(WEB, "default/gone", "gone", 0.0))
    assert refused(ledger, 30.0, None) == "DisruptionLimit"
    assert refused(ledger, 600.0, None) is None
    assert refused(ledger, 600.0, DisruptionLimits(1, 10, HOUR)) == "DisruptionLimit"


def test_counters_come_into_being_with_their_first_count():
    metrics = Metrics()
    one = Counter("spotalis_reconciliations_total", {"action": "none", "result": "success"})
    metrics.count([one, one, Counter("plain_total")])
    value = metrics.registry.get_sample_value
    assert value("spotalis_reconciliations_total", {"action": "none", "result": "success"}) == 2
    assert value("plain_total") == 1


def test_who_leads_is_told_under_the_name_that_dashboards_ask_for():
    metrics = Metrics()
    metrics.set_leading(["placement"], leading=True)
    value = metrics.registry.get_sample_value
    assert value("spotalis_leader_election_status", {"controller_name": "placement"}) == value("plimsoll_leading") == 1
    metrics.set_leading(["placement"], leading=False)
    assert value("spotalis_leader_election_status", {"controller_name": "placement"}) == value("plimsoll_leading") == 0
