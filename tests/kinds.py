"""Kinds that controllers bring along, served by the shared control plane for as long as a package of tests needs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from tools.controlplane.api import ApiError
from tools.controlplane.cluster import ControlPlane

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@contextmanager
def served(control_plane: ControlPlane, definitions: Sequence[dict[str, Any]]) -> Iterator[None]:
    """Gone altogether afterwards: the next package brings its own, and a name that is still leaving is taken."""
    paths = [f"{DEFINITIONS}/{one['metadata']['name']}" for one in definitions]
    # One that a package before us has removed may be on its way out still.
    control_plane.wait_for(lambda: not any(answers(control_plane, path) for path in paths), "the names to be free")
    install(control_plane, definitions)
    try:
        yield
    finally:
        for path in paths:
            control_plane.request("DELETE", path)
        control_plane.wait_for(
            lambda: not [one for one in definitions if _lingers(control_plane, one)], "the kinds to be gone"
        )


def _lingers(control_plane: ControlPlane, definition: dict[str, Any]) -> bool:
    """Whether a kind is still there. Its last objects are let go: what an operator sent before it was killed may have been carried
    out after its test had cleared up, and nobody is left who takes the finalizers off."""
    if not answers(control_plane, f"{DEFINITIONS}/{definition['metadata']['name']}"):
        return False
    spec = definition["spec"]
    root, plural = f"/apis/{spec['group']}/{spec['versions'][0]['name']}", spec["names"]["plural"]
    with suppress(ApiError):
        for left in control_plane.request("GET", f"{root}/{plural}")["items"]:
            about = left["metadata"]
            if about.get("finalizers"):
                path = f"{root}/namespaces/{about['namespace']}/{plural}/{about['name']}"
                body = {"metadata": {"finalizers": None}}
                control_plane.request("PATCH", path, body, content_type="application/merge-patch+json")
    return True


def install(control_plane: ControlPlane, definitions: Sequence[dict[str, Any]]) -> None:
    """Make the kinds known, and wait until they are served."""
    for one in definitions:
        control_plane.request("POST", DEFINITIONS, one)
    collections = [
        f"/apis/{one['spec']['group']}/{version['name']}/{one['spec']['names']['plural']}"
        for one in definitions
        for version in one["spec"]["versions"]
    ]
    control_plane.wait_for(lambda: all(answers(control_plane, path) for path in collections), "the kinds to be served")


def answers(control_plane: ControlPlane, path: str) -> bool:
    try:
        control_plane.request("GET", path)
    except ApiError:
        return False
    return True
