"""Which source wins, and what `config show` says about it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from plimsoll.config import Config, OperatorConfig
from plimsoll.config.load import DEFAULT, Flag, load
from plimsoll.config.records import Records
from plimsoll.config.settings import BY_VARIABLE, SETTINGS, build_config
from tests.config.reading import load_text


def test_without_any_source_the_defaults_apply() -> None:
    loaded = load()
    assert loaded.config == Config()
    assert set(loaded.origins) == set(SETTINGS)
    assert set(loaded.origins.values()) == {DEFAULT}


def test_file_then_environment_then_flags(tmp_path: Path) -> None:
    loaded = load_text(
        tmp_path,
        "web: {port: 1000, host: '::1'}\ncontrollers:\n  reconcileInterval: 1m\n",
        {"PLIMSOLL_WEB_PORT": "2000", "PLIMSOLL_CONTROLLERS_RECONCILE_INTERVAL": "2m"},
        [Flag("web.port", "3000", "--set web.port")],
    )
    assert loaded.config.web.port == 3000
    assert loaded.config.web.host == "::1"
    assert loaded.config.controllers.reconcile_interval == timedelta(minutes=2)
    assert loaded.origins["web.port"] == "--set web.port"
    assert loaded.origins["web.host"] == f"{tmp_path}/plimsoll.yaml:1:25"
    assert loaded.origins["controllers.reconcileInterval"] == "PLIMSOLL_CONTROLLERS_RECONCILE_INTERVAL"
    assert loaded.origins["web.port"] != loaded.origins["logging.level"] == DEFAULT


def test_every_kind_of_value_from_a_file(tmp_path: Path) -> None:
    config = load_text(
        tmp_path,
        """
        operator:
          readOnlyMode: true
          auditLog: /var/log/plimsoll.jsonl
          watchNamespaces: [shop, "123"]
          leaderElection: {leaseDuration: 1m30s}
        controllers:
          enabled:
          - deletion-cost
          maxConcurrentReconciles: 7
        logging: {level: debug}
        """,
    ).config
    assert config.operator.read_only_mode is True
    assert config.operator.audit_log == "/var/log/plimsoll.jsonl"
    assert config.operator.watch_namespaces == ("shop", "123")
    assert config.operator.leader_election.lease_duration == timedelta(seconds=90)
    assert config.controllers.enabled == ("deletion-cost",)
    assert config.controllers.max_concurrent_reconciles == 7
    assert config.logging.level == "debug"


def test_lists_and_empty_texts_from_the_environment() -> None:
    config = load(
        environ={
            "PLIMSOLL_OPERATOR_WATCH_NAMESPACES": "shop, bank",
            "PLIMSOLL_CONTROLLERS_ENABLED": "",
            "PLIMSOLL_OPERATOR_AUDIT_LOG": "",
            "PLIMSOLL_OPERATOR_READ_ONLY_MODE": "TRUE",
        }
    ).config
    assert config.operator.watch_namespaces == ("shop", "bank")
    assert config.controllers.enabled == ()
    assert config.operator.audit_log == ""
    assert config.operator.read_only_mode


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "operator:\n  # all commented out\nweb:\n", "{}"])
def test_a_file_that_says_nothing_is_fine(tmp_path: Path, text: str) -> None:
    assert load_text(tmp_path, text).config == Config()


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    assert load_text(tmp_path, "\ufeffweb: {port: 1}").config.web.port == 1


def test_the_namespace_is_that_of_the_pod_unless_someone_says_otherwise(tmp_path: Path) -> None:
    in_pod = tmp_path / "namespace"
    in_pod.write_text("from-the-account\n")
    assert load(service_account_namespace=in_pod).config.operator.namespace == "from-the-account"
    assert load(service_account_namespace=in_pod).origins["operator.namespace"] == str(in_pod)
    named = {"POD_NAMESPACE": "from-the-pod"}
    assert load(environ=named, service_account_namespace=in_pod).config.operator.namespace == "from-the-pod"
    assert load_text(tmp_path, "operator: {namespace: mine}", named).config.operator.namespace == "mine"
    assert load(service_account_namespace=tmp_path / "missing").config.operator.namespace == OperatorConfig().namespace


def test_each_key_has_a_variable_of_its_own() -> None:
    assert len(BY_VARIABLE) == len(SETTINGS)
    assert SETTINGS["operator.leaderElection.leaseName"].variable == "PLIMSOLL_OPERATOR_LEADER_ELECTION_LEASE_NAME"


@pytest.mark.parametrize("key", SETTINGS)
def test_every_default_can_be_written_down_and_read_back(key: str) -> None:
    setting = SETTINGS[key]
    plain = setting.form.plain(setting.default)
    if isinstance(setting.form, Records):
        text = yaml.safe_dump(plain, default_flow_style=True)
    else:
        text = ",".join(plain) if isinstance(plain, list) else str(plain)
    assert setting.form.read(text) == setting.default
    assert setting.description.endswith(".")


def test_the_flat_list_of_keys_builds_the_whole_tree() -> None:
    config = build_config({key: setting.default for key, setting in SETTINGS.items()})
    assert config == Config()
    assert all(setting.value_in(config) == setting.default for setting in SETTINGS.values())
