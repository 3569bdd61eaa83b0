"""A PLIMSOLL_ variable is a setting or a mistake, unless Kubernetes put it there."""

from __future__ import annotations

import pytest

from plimsoll.config import Config
from plimsoll.config.load import load
from plimsoll.config.sources import ConfigurationError


def problem_with(**environ: str) -> str:
    with pytest.raises(ConfigurationError) as refusal:
        load(environ=environ)
    (problem,) = refusal.value.problems
    return str(problem)


def test_an_unknown_variable_names_the_nearest() -> None:
    assert problem_with(PLIMSOLL_WEB_POTR="1") == (
        'PLIMSOLL_WEB_POTR: unknown variable (value "1"); did you mean PLIMSOLL_WEB_PORT?'
    )
    assert "did you mean PLIMSOLL_OPERATOR_READ_ONLY_MODE?" in problem_with(PLIMSOLL_OPERATOR_READONLYMODE="1")
    assert "`plimsoll config show` lists the valid keys" in problem_with(PLIMSOLL_QUUX="1")


def test_a_wrong_value_names_the_key() -> None:
    assert problem_with(PLIMSOLL_LOGGING_LEVEL="inof") == (
        'PLIMSOLL_LOGGING_LEVEL: logging.level: "inof" is not one of debug, info, warning, error; did you mean info?'
    )
    assert problem_with(PLIMSOLL_WEB_PORT="") == (
        'PLIMSOLL_WEB_PORT: web.port: "" is not a whole number from 0 to 65535'
    )
    assert problem_with(PLIMSOLL_CONTROLLERS_ENABLED="placement,a,b").count("is not one of") == 2


def test_what_is_not_ours_is_left_alone() -> None:
    environ = {"PATH": "/bin", "XPLIMSOLL_WEB_PORT": "1", "PLIMSOLL": "1", "PLIMSOLL_CONTROLPLANE": "/opt/bin"}
    assert load(environ=environ).config == Config()


SERVICE_LINKS = {
    "PLIMSOLL_METRICS_SERVICE_HOST": "10.0.0.7",
    "PLIMSOLL_METRICS_SERVICE_PORT": "8080",
    "PLIMSOLL_METRICS_SERVICE_PORT_METRICS": "8080",
    "PLIMSOLL_METRICS_PORT": "tcp://10.0.0.7:8080",
    "PLIMSOLL_METRICS_PORT_8080_TCP": "tcp://10.0.0.7:8080",
    "PLIMSOLL_METRICS_PORT_8080_TCP_PROTO": "tcp",
    "PLIMSOLL_METRICS_PORT_8080_TCP_PORT": "8080",
    "PLIMSOLL_METRICS_PORT_8080_TCP_ADDR": "10.0.0.7",
}


@pytest.mark.parametrize("service", ["PLIMSOLL", "PLIMSOLL_METRICS", "PLIMSOLL_WEB"])
def test_variables_of_a_service_with_our_name_are_passed_over(service: str) -> None:
    environ = {name.replace("PLIMSOLL_METRICS", service): value for name, value in SERVICE_LINKS.items()}
    assert load(environ=environ).config == Config()


def test_a_setting_that_someone_wrote_wins_over_the_link_of_a_service() -> None:
    environ = {"PLIMSOLL_WEB_SERVICE_HOST": "10.0.0.7", "PLIMSOLL_WEB_PORT": "9090"}
    assert load(environ=environ).config.web.port == 9090


def test_without_its_service_such_a_variable_is_a_mistake() -> None:
    assert problem_with(PLIMSOLL_METRICS_SERVICE_PORT="8080").startswith("PLIMSOLL_METRICS_SERVICE_PORT: unknown")
