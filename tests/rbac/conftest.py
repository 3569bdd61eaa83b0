"""Namespaces of an installation's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tools.controlplane.cluster import ControlPlane


@pytest.fixture
def home(control_plane: ControlPlane) -> Iterator[str]:
    """The operator's own namespace."""
    name = control_plane.add_namespace("home")
    yield name
    control_plane.remove_namespace(name)
