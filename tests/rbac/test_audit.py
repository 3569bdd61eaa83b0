"""What is read from the API server's audit log, and what is made of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.rbac.audit import AuditLogs, parse
from tests.rbac.everywhere import Judged
from tests.rbac.judge import Grant


def line(
    verb: str, resource: str, *, user: str = "system:serviceaccount:h1:plimsoll", allowed: bool = True, **about: Any
):
    return {
        "user": {"username": user},
        "verb": verb,
        "objectRef": {"resource": resource, **about},
        "annotations": {"authorization.k8s.io/decision": "allow" if allowed else "forbid"},
    }


@pytest.fixture
def judged() -> Iterator[Judged]:
    made = Judged()
    made.logs.flags()
    yield made
    made.remove()


def write(judged: Judged, *records: dict[str, Any]) -> None:
    with (judged.directory / "audit-0.jsonl").open("a") as log:
        log.writelines(json.dumps(one) + "\n" for one in records)


def test_only_accounts_of_an_installation_and_only_objects_count():
    assert parse(line("get", "pods", user="admin")) is None
    assert parse(line("get", "pods", user="system:serviceaccount:h1:default")) is None
    version = line("get", "pods")
    del version["objectRef"]
    assert parse(version) is None
    found = parse(line("create", "pods", subresource="eviction", namespace="shop", name="web-1"))
    assert str(found) == "create pods/eviction shop/web-1"


def test_no_line_is_read_twice_and_none_by_half(tmp_path: Path):
    logs = AuditLogs(tmp_path)
    logs.flags()
    log = tmp_path / "audit-0.jsonl"
    whole = json.dumps(line("get", "pods"))
    log.write_text(f"{whole}\n{whole[:20]}")
    assert len(list(logs.new())) == 1
    log.write_text(f"{whole}\n{whole}\n")
    assert len(list(logs.new())) == 1
    assert list(logs.new()) == []


def test_what_is_refused_is_told_once_and_only_of_accounts_that_are_judged(judged: Judged):
    judged.grant("h1", set())
    other = "system:serviceaccount:h2:plimsoll"
    write(judged, line("delete", "pods", allowed=False), line("delete", "nodes", allowed=False, user=other))
    assert judged.denied() == ["delete pods /"]
    assert judged.denied() == []


def test_a_right_is_used_wherever_somebody_used_it(judged: Judged):
    named = Grant("", "secrets", "get", "h1", "of-h1")
    judged.grant("h1", {named, Grant("", "pods", "patch", "shop"), Grant("", "pods", "get")})
    write(
        judged,
        line("get", "secrets", user="system:serviceaccount:h2:plimsoll", namespace="h2", name="of-h2"),
        line("patch", "pods", namespace="office", name="web"),
    )
    assert judged.denied() == []
    assert judged.unused() == [Grant("", "pods", "get")]


def test_what_was_refused_in_one_namespace_uses_no_right_in_another(judged: Judged):
    right = Grant("", "pods", "patch", "shop")
    judged.grant("h1", {right})
    write(judged, line("patch", "pods", namespace="office", name="web", allowed=False))
    assert judged.denied() == ["patch pods office/web"]
    assert judged.unused() == [replace(right, namespace="")]
