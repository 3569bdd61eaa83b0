"""Every key of the configuration changes what is decided."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from plimsoll.config import Config
from plimsoll.config.load import Flag, load
from plimsoll.config.sources import ConfigurationError
from plimsoll.controllers.build import controllers, placement_settings
from plimsoll.controllers.placement.controller import PlacementController
from plimsoll.controllers.placement.rebalance.next_action import NextAction
from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.controllers.placement.target import Target
from plimsoll.controllers.placement.workload import INVALID
from plimsoll.kube.codec import convert
from plimsoll.kube.types.core import Namespace
from tests import build
from tests.placement.scene import Scene, codes, evicted, spot_node


def configured(**keys: str) -> Config:
    keys = {"webhook__mode": "url", **keys}
    flags = [Flag(key.replace("__", "."), text, "--set") for key, text in keys.items()]
    return load(flags=[*flags, Flag("controllers.enabled", "placement", "--set")]).config


def scene(*, running: tuple[int, int] = (3, 7), keys: dict[str, str] | None = None, **fields: Any) -> Scene:
    """What the assembled controller sees and says."""
    config = configured(**(keys or {}))
    (controller,) = controllers(config)
    assert isinstance(controller, PlacementController)
    made = Scene(settings=placement_settings(config), **fields)
    made.controller = controller
    made.running(*running)
    return made


def build_namespace(labels: dict[str, str]) -> Namespace:
    return convert({"metadata": build.metadata("default", "", labels=labels)}, Namespace)


def test_the_defaults_are_those_of_the_settings():
    assert placement_settings(configured()) == PlacementSettings()


def test_rounding():
    assert scene(replicas=3, minimum="0", spot="50%").decide().target == Target(1, 2)
    assert scene(replicas=3, minimum="0", spot="50%", keys={"placement__rounding": "up"}).decide().target == Target(
        2, 1
    )


def test_percent_sign():
    assert scene(spot="60").decide().reason.code == INVALID
    assert scene(spot="60", keys={"placement__percentSign": "optional"}).decide().target == Target(6, 4)


def test_when_min_exceeds_replicas():
    assert scene(minimum="11").decide().target is None
    keys = {"placement__whenMinExceedsReplicas": "on-demand"}
    assert scene(minimum="11", keys=keys).decide().target == Target(0, 10)


def test_spot_labels():
    found = scene(keys={"placement__spotLabels": "pool=cheap,pool=cheaper"})
    assert found.decide().current.spot == 0  # type: ignore[union-attr]
    found.add(build.node("spot-1", labels={"pool": "cheaper"}))
    assert found.decide().current.spot == 3  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["pool", "=x", "pool="])
def test_spot_labels_that_are_none(text: str):
    with pytest.raises(ConfigurationError, match=r"placement\.spotLabels"):
        placement_settings(configured(placement__spotLabels=text))


def test_moving_percentage():
    found = scene(keys={"placement__movingPercentage": "30"})
    found.add(build.budget(allowed=9))
    assert len(evicted(found.decide())) == 3


@pytest.mark.parametrize("key", ["maxMigrations", "maxMigrationsPerCluster"])
def test_limits_of_migrations(key: str):
    assert codes(scene(keys={f"placement__{key}": "0"}).decide()) == ["MigrationLimit"]


def test_migration_period():
    found = scene(keys={"placement__maxMigrations": "1", "placement__migrationPeriod": "2m"})
    found.disrupted(found.now - timedelta(minutes=1))
    assert codes(found.decide()) == ["MigrationLimit"]
    assert evicted(found.decide(after=timedelta(minutes=1)))


def test_external_autoscaler():
    for keys, expected in (({}, 0), ({"placement__externalAutoscaler": "true"}, 1)):
        found = scene(keys=keys)
        found.add(spot_node(pods=3))
        assert len(evicted(found.decide())) == expected


def test_spot_fallback_after():
    for keys, expected in (({}, 0), ({"placement__spotFallbackAfter": "30s"}, 1)):
        found = scene(running=(5, 4), keys=keys)
        found.waiting("waits", since=found.now - timedelta(minutes=1))
        assert len(found.decide().actions) == expected


def test_max_fallbacks_per_minute():
    found = scene(running=(3, 4), keys={"placement__maxFallbacksPerMinute": "2"})
    for number in range(3):
        found.waiting(f"waits-{number}", since=found.now - timedelta(hours=1))
    found.backs_off(since=found.now, until=found.now + timedelta(minutes=5))
    assert len(evicted(found.decide())) == 2


def test_cooldown_period():
    found = scene(keys={"controllers__workloadTiming__cooldownPeriod": "1h"})
    found.disrupted(found.now - timedelta(minutes=59))
    assert codes(found.decide()) == ["Cooldown"]


def test_disruption_retry_interval():
    found = scene(keys={"controllers__workloadTiming__disruptionRetryInterval": "5s"})
    found.add(build.budget(allowed=0))
    assert found.decide().requeue_after == timedelta(seconds=5)


def test_disruption_window():
    keys = {
        "operator__disruptionWindow__schedule": "30 9 * * *",
        "operator__disruptionWindow__duration": "1h",
        "operator__disruptionWindow__timezone": "Asia/Kolkata",
    }
    found = scene(keys=keys)  # midnight in London is half past five in Kolkata
    decision = found.decide()
    assert codes(decision) == ["WindowClosed"]
    assert decision.requeue_after == timedelta(hours=4)
    assert evicted(found.decide(after=timedelta(hours=4)))


@pytest.mark.parametrize(
    "keys",
    [
        {"schedule": "never", "duration": "1h"},
        {"schedule": "0 2 * * *"},
        {"schedule": "0 2 * * *", "duration": "1h", "timezone": "Europe/Atlantis"},
    ],
)
def test_a_window_that_makes_no_sense_is_refused_at_the_start(keys: dict[str, str]):
    with pytest.raises(ConfigurationError, match=r"operator\.disruptionWindow"):
        controllers(configured(**{f"operator__disruptionWindow__{key}": text for key, text in keys.items()}))


def test_webhook_mode():
    """Without a webhook nothing is moved to anywhere; it is said what would be."""
    assert evicted(scene().decide())
    found = scene(keys={"webhook__mode": "off"})
    decision = found.decide()
    assert (codes(decision), evicted(decision)) == (["NoWebhook"], [])
    assert "webhook.mode" in decision.reason.message
    assert (decision.action, decision.target) == (NextAction.MIGRATE_TO_SPOT, Target(6, 4))


def test_namespace_selector():
    found = scene(keys={"placement__namespaceSelector": "placement=managed,team=a"})
    for labels in ({}, {"placement": "managed"}, {"placement": "other", "team": "a"}):
        found.add(build_namespace(labels))
        decision = found.decide()
        assert (decision.reason.code, decision.target, decision.actions) == ("NamespaceNotSelected", None, ())
        assert "namespace default" in decision.reason.message
    found.add(build_namespace({"placement": "managed", "team": "a", "more": "x"}))
    assert evicted(found.decide())


def test_a_namespace_that_is_not_in_view_is_not_selected():
    decision = scene(keys={"placement__namespaceSelector": "placement=managed"}).decide()
    assert decision.reason.code == "NamespaceNotSelected"


def test_a_namespace_selector_that_is_none_is_refused_at_the_start():
    with pytest.raises(ConfigurationError, match=r"placement\.namespaceSelector"):
        controllers(configured(placement__namespaceSelector="managed"))


def test_where_memory_is_kept():
    assert placement_settings(configured(operator__namespace="elsewhere")).memory.watched_in == "elsewhere"
