"""Lines that describe nodes, and what is said of those that do not."""

from __future__ import annotations

import pytest

from plimsoll.sim.node_lines import NodeLineError, parse_node_line


def test_a_line_becomes_nodes() -> None:
    line = parse_node_line("3 zone=a class=spot cpu=8 memory=32Gi label:example.org/pool=x")
    assert line.count == 3
    assert line.prefix == "spot-a"
    node = line.manifest("spot-a-1", 1)
    labels = node["metadata"]["labels"]
    assert labels["topology.kubernetes.io/zone"] == "a"
    assert labels["karpenter.sh/capacity-type"] == "spot"
    assert labels["example.org/pool"] == "x"
    assert node["status"]["allocatable"]["cpu"] == "8"
    assert node["status"]["allocatable"]["pods"] == "110"


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("", "empty"),
        ("many zone=a", "'many'"),
        ("0 zone=a", "'0'"),
        ("3 zonk=a", "'zonk=a'"),
        ("3 class=cheap", "'cheap'"),
        ("3 cpu=lots", "'lots'"),
    ],
)
def test_a_faulty_word_is_named(line: str, named: str) -> None:
    with pytest.raises(NodeLineError, match=named):
        parse_node_line(line)
