"""Whoever wrote a wrong file is told the line, the key, the value, what is expected and what was probably meant."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plimsoll.config.load import load
from plimsoll.config.sources import ConfigurationError
from plimsoll.config.yaml_file import read_yaml
from tests.config.reading import problems_in


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        # unknown keys
        (
            "operator:\n  readOnlyModus: true",
            'plimsoll.yaml:2:3: operator.readOnlyModus: unknown key (value "true"); did you mean readOnlyMode?',
        ),
        (
            "operator: {read_only_mode: true}",
            'plimsoll.yaml:1:12: operator.read_only_mode: unknown key (value "true"); did you mean readOnlyMode?',
        ),
        (
            "readOnlyMode: true",
            'plimsoll.yaml:1:1: readOnlyMode: unknown key (value "true"); did you mean operator.readOnlyMode?',
        ),
        (
            "web: {zzz: [1]}",
            "plimsoll.yaml:1:7: web.zzz: unknown key (value a list); valid under web: host, port",
        ),
        (
            "zzz:",
            (
                "plimsoll.yaml:1:1: zzz: unknown key (value none); "
                "valid here: operator, audit, controllers, placement, allocation, nodegroups, providers, "
                "kubernetes, web, webhook, dashboard, logging"
            ),
        ),
        ('"a\\e[31m": 1', 'plimsoll.yaml:1:1: "a\\x1b[31m": unknown key'),
        # wrong types
        (
            "controllers:\n  maxConcurrentReconciles: many",
            'plimsoll.yaml:2:28: controllers.maxConcurrentReconciles: "many" is not a whole number of at least 1',
        ),
        ("web: {port: 70000}", "plimsoll.yaml:1:13: web.port: 70000 is not a whole number from 0 to 65535"),
        ("web: {port: -1}", "plimsoll.yaml:1:13: web.port: -1 is not a whole number from 0 to 65535"),
        ("web: {port: 8_080}", 'plimsoll.yaml:1:13: web.port: "8_080" is not a whole number from 0 to 65535'),
        ("web: {port: 010}", 'web.port: "010" is not a whole number'),
        ("web: {port: '8080'}", 'web.port: "8080" is in quotes, which makes it a text; a whole number from 0 to 65535'),
        ("web: {port: 1.5}", 'web.port: "1.5" is not a whole number'),
        (f"web: {{port: {'9' * 10_000}}}", f'web.port: "{"9" * 79}…" is not a whole number'),
        ("web: {port: [1]}", "plimsoll.yaml:1:13: web.port: a list where a whole number from 0 to 65535 is expected"),
        ("web: {port: }", "web.port: no value; a whole number from 0 to 65535 is expected (leave the key out"),
        ("web: {host: 12}", "web.host: 12 is a number to YAML; a text that is not empty is expected: put it in quotes"),
        ("web: {host: ''}", 'web.host: "" is not a text that is not empty'),
        ("operator: {readOnlyMode: yes}", 'operator.readOnlyMode: "yes" is neither true nor false'),
        ("operator: {readOnlyMode: 'true'}", 'operator.readOnlyMode: "true" is in quotes'),
        ("operator: {auditLog: on}", "operator.auditLog: on is a boolean to YAML"),
        ("operator: {auditLog: !!binary aGk=}", 'operator.auditLog: "aGk=" is tagged'),
        ("operator: {namespace: Not_A_Name}", 'operator.namespace: "Not_A_Name" is not the name of a namespace'),
        (f"operator: {{namespace: {'a' * 64}}}", "is not the name of a namespace"),
        ("operator: {leaderElection: {leaseName: a..b}}", '"a..b" is not the name of an object'),
        (
            "logging: {level: warn}",
            'logging.level: "warn" is not one of debug, info, warning, error; did you mean warning?',
        ),
        # lists
        (
            "operator: {watchNamespaces: shop}",
            'operator.watchNamespaces: "shop" where a list is expected; write [shop]',
        ),
        ("operator: {watchNamespaces: {a: b}}", "operator.watchNamespaces: a section with keys where a list is"),
        ("operator: {watchNamespaces: [a, b, a]}", 'operator.watchNamespaces: "a" is in the list twice'),
        ("operator: {watchNamespaces: [[a]]}", "operator.watchNamespaces: a list where the name of a namespace"),
        (
            "controllers:\n  enabled:\n  - placement\n  - nodegroup",
            (
                'plimsoll.yaml:4:5: controllers.enabled: "nodegroup" is not one of placement, deletion-cost, nodegroups, '
                "allocation; did you mean nodegroups?"
            ),
        ),
        # durations
        (
            "controllers: {reconcileInterval: 30}",
            'controllers.reconcileInterval: "30" has no unit; did you mean "30s"? (a duration of at least 1s is',
        ),
        ("controllers: {reconcileInterval: soon}", '"soon" is not a duration; write it like "10s"'),
        ("controllers: {reconcileInterval: 0}", 'controllers.reconcileInterval: "0" is not a duration of at least 1s'),
        ("operator: {leaderElection: {leaseDuration: 15500ms}}", '"15500ms" is not a duration in whole seconds'),
        # sections
        (
            "web: [8080]",
            "plimsoll.yaml:1:6: web: a list where a section with keys is expected (host, port)",
        ),
        ("- web", "plimsoll.yaml:1:1: a list where a section with keys is expected (operator, "),
        ("just text", 'plimsoll.yaml:1:1: "just text" where a section with keys is expected'),
        ("web: {? [a] : b}", "plimsoll.yaml:1:9: web: a list where a key is expected"),
        (
            "web:\n  port: 1\nlogging: {}\nweb:\n  port: 2",
            "plimsoll.yaml:4:1: web: given twice (a section with keys here); the first is in line 1",
        ),
        ("web:\n  port: 1\n  port: 1", 'plimsoll.yaml:3:3: web.port: given twice ("1" here); the first is in line 2'),
        # YAML itself
        ("web: {port: 1", "plimsoll.yaml:1:14: not valid YAML: expected ',' or '}'"),
        ("web:\n\tport: 1", "plimsoll.yaml:2:1: not valid YAML: found character '\\t'"),
        ("web: *nobody", "plimsoll.yaml:1:6: not valid YAML: found undefined alias"),
        ("web: {port: 1}\n---\nweb: {port: 2}", "plimsoll.yaml:3:1: a second document begins here; a file holds one"),
        ("a: \x00", "plimsoll.yaml: not valid YAML: unacceptable character"),
        ("[" * 1000, "plimsoll.yaml: not valid YAML: nested too deeply"),
    ],
)
def test_says_what_is_wrong_and_where(tmp_path: Path, text: str, problem: str) -> None:
    found = problems_in(tmp_path, text)
    assert len(found) == 1, found
    assert problem in found[0]


def test_every_error_is_reported_at_once(tmp_path: Path) -> None:
    found = problems_in(
        tmp_path,
        "web: {port: x}\nlogging: {level: loud, colour: red}\ncontrollers: {enabled: [a, b]}",
        {"PLIMSOLL_WEB_HOST": "", "PLIMSOLL_NONSENSE": "1"},
    )
    assert [problem.split(": ")[0] for problem in found] == [
        "plimsoll.yaml:1:13",
        "plimsoll.yaml:2:18",
        "plimsoll.yaml:2:24",
        "plimsoll.yaml:3:25",
        "plimsoll.yaml:3:28",
        "PLIMSOLL_NONSENSE",
        "PLIMSOLL_WEB_HOST",
    ]


def test_an_anchor_is_followed_and_one_that_leads_to_itself_ends(tmp_path: Path) -> None:
    assert not read_yaml("web: &w {port: 1}\n", "f").problems
    found = problems_in(tmp_path, "web: &w {host: *w}")
    assert found == ["plimsoll.yaml:1:6: web.host: a section with keys where a text that is not empty is expected"]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    def refusal(file: Path) -> str:
        with pytest.raises(ConfigurationError) as error:
            load(file)
        return str(error.value)

    assert refusal(tmp_path / "missing.yaml") == f"{tmp_path}/missing.yaml: cannot be read: No such file or directory"
    assert refusal(tmp_path) == f"{tmp_path}: cannot be read: Is a directory"
    (tmp_path / "latin1.yaml").write_bytes(b"web:\n  host: caf\xe9\n")
    assert refusal(tmp_path / "latin1.yaml") == f"{tmp_path}/latin1.yaml:2: not UTF-8 (byte 0xe9)"
    with (tmp_path / "huge.yaml").open("wb") as huge:
        os.truncate(huge.fileno(), 2 << 20)
    assert "larger than 1 MiB" in refusal(tmp_path / "huge.yaml")


plain_yaml = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10) | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["operator", "web", "port", "host", "enabled", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(plain_yaml)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_no_document_makes_the_reader_stumble(document: object) -> None:
    reading = read_yaml(yaml.safe_dump(document), "f")
    for problem in reading.problems:
        assert str(problem).startswith("f:")
        assert str(problem).isprintable()


@given(st.text(max_size=60))
def test_no_text_makes_the_reader_stumble(text: str) -> None:
    for problem in read_yaml(text, "f").problems:
        assert str(problem).startswith("f:")
