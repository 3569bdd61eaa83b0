"""The judge itself: what it lets pass, and that each of the three faults is found."""

from __future__ import annotations

from tests.faults.calls import parse
from tests.faults.record import Exchange
from tests.rbac.judge import Grant, complaints, granted

ROLE = {
    "kind": "Role",
    "metadata": {"name": "r", "namespace": "home"},
    "rules": [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["mine"]},
    ],
}
PATCH, GET = Grant("", "pods", "patch", "home"), Grant("", "secrets", "get", "home", "mine")


def asked(method: str, path: str, status: int = 200) -> Exchange:
    return Exchange(1, parse(method, path, {}, b"", "a"), 0.0, answered=status)


PATCHED = asked("PATCH", "/api/v1/namespaces/home/pods/p")
READ = asked("GET", "/api/v1/namespaces/home/secrets/mine")


def test_what_is_used_and_granted_passes():
    assert granted([ROLE, {"kind": "RoleBinding", "metadata": {"name": "r"}}]) == {PATCH, GET}
    assert complaints(granted([ROLE]), [PATCHED, READ, asked("GET", "/version")]) == []


def test_a_right_that_nobody_used():
    assert complaints({PATCH, GET}, [PATCHED]) == ["unused: get secrets named mine in home"]
    elsewhere = asked("PATCH", "/api/v1/namespaces/shop/pods/p")
    assert "unused: patch pods in home" in complaints({PATCH}, [elsewhere])


def test_a_request_that_was_refused():
    refused = asked("DELETE", "/api/v1/namespaces/home/pods/p", 403)
    assert complaints({PATCH}, [PATCHED, refused]) == ["denied: delete pods home/p"]


def test_a_request_that_passed_without_a_right_of_ours():
    """Such as one that a default role of the cluster allows."""
    assert complaints({PATCH}, [PATCHED, asked("POST", "/api/v1/namespaces/home/pods/p/eviction", 201)]) == [
        "undeclared: create pods/eviction home/p"
    ]
