"""The Node objects of the provider `kwok`, as bodies."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from plimsoll.config.providers import KwokOffering
from plimsoll.providers.kwok.nodes import KwokOrder, node_body
from plimsoll.providers.protocol import MachineRequest


@pytest.mark.parametrize(
    ("asked", "written"), [("1.36", "v1.36"), ("v1.36.3", "v1.36.3"), ("1.36.3", "v1.36.3"), ("", "kwok")]
)
def test_the_kubelet_version_begins_with_v(asked: str, written: str) -> None:
    """KWOK's stock stages read "1.36" as a number, and the node never becomes Ready."""
    request = MachineRequest("key", "n", "g", "small", "dc", kubernetes_version=asked)
    body = node_body(KwokOrder(request, datetime(2026, 1, 1, tzinfo=UTC)), KwokOffering("small", cpu="1", memory="1Gi"))
    assert body["status"]["nodeInfo"]["kubeletVersion"] == written
