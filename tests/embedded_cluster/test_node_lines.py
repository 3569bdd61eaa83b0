"""Nodes from one line: what it may say, and what it answers to what it may not."""

from __future__ import annotations

import pytest

from plimsoll.embedded_cluster.node_spec import NodeLineError, parse_node_line


def test_a_line_becomes_a_node_with_the_labels_that_schedulers_read() -> None:
    line = parse_node_line(
        "3 zone=a class=spot cpu=8 memory=32Gi pods=50 type=m5.large arch=arm64 region=eu-1 prefix=n"
    )
    node = line.manifest("n-0", "100.64.0.1", kubelet="kwok")
    assert (line.count, line.prefix) == (3, "n")
    assert node["metadata"]["labels"] == {
        "kubernetes.io/hostname": "n-0",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "arm64",
        "node.kubernetes.io/instance-type": "m5.large",
        "topology.kubernetes.io/zone": "a",
        "topology.kubernetes.io/region": "eu-1",
        "karpenter.sh/capacity-type": "spot",
    }
    assert node["status"]["capacity"] == node["status"]["allocatable"]
    assert node["status"]["capacity"] == {"cpu": "8", "memory": "32Gi", "pods": "50", "ephemeral-storage": "100Gi"}
    assert {"type": "InternalIP", "address": "100.64.0.1"} in node["status"]["addresses"]


def test_everything_has_a_default() -> None:
    line = parse_node_line("2")
    labels = line.manifest("node-0", "100.64.0.1", kubelet="kwok")["metadata"]["labels"]
    assert line.prefix == "node"
    assert "topology.kubernetes.io/zone" not in labels
    assert "karpenter.sh/capacity-type" not in labels
    assert labels["node.kubernetes.io/instance-type"] == "kwok.4x16Gi"


def test_without_a_prefix_the_names_say_class_and_zone() -> None:
    assert parse_node_line("class=on-demand zone=EU_1").prefix == "on-demand-eu-1"


def test_labels_annotations_resources_and_taints() -> None:
    node = parse_node_line(
        "label:example.com/pool=gold annotation:controlplane.test/ready=false resource:nvidia.com/gpu=4 "
        "taint:dedicated=db:NoSchedule taint:spot:PreferNoSchedule",
    ).manifest("node-0", "100.64.0.1", kubelet="kwok")
    assert node["metadata"]["labels"]["example.com/pool"] == "gold"
    assert node["metadata"]["annotations"]["controlplane.test/ready"] == "false"
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"
    assert node["spec"]["taints"] == [
        {"key": "dedicated", "value": "db", "effect": "NoSchedule"},
        {"key": "spot", "effect": "PreferNoSchedule"},
    ]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("", r"empty: expected such as '3 zone=a"),
        ("three zone=a", r"'three' in nodes 'three zone=a': expected how many nodes"),
        ("0 zone=a", r"'0' .* 1 to 50000"),
        ("3 zone=a cpus=8", r"'cpus=8' .* is not known: expected one of zone=, .*cpu=.*label:"),
        ("3 zone", r"'zone' .* is not known"),
        ("3 class=cheap", r"'class=cheap' .*: class= expects one of spot, on-demand, reserved"),
        ("3 cpu=lots", r"'cpu=lots' .*: cpu= expects a quantity such as 8 or 7500m"),
        ("3 memory=32GB", r"'memory=32GB' .*: memory= expects a quantity such as 32Gi"),
        ("3 pods=1.5", r"'pods=1.5' .*: pods= expects a number"),
        ("3 prefix=N_", r"'prefix=N_' .*: prefix= expects the beginning of the nodes' names"),
        ("3 zone=a zone=b", r"'zone=b' .*: zone= is already given as 'a'"),
        ("3 taint:dedicated=db:Sometimes", r"'taint:dedicated=db:Sometimes' .*: expected taint:KEY"),
        ("3 label:pool", r"'label:pool' .*: expected label:KEY=VALUE"),
        ("3 resource:gpu=many", r"'resource:gpu=many' .*: expected resource:NAME=QUANTITY"),
    ],
)
def test_a_faulty_word_is_named_with_what_is_expected(line: str, complaint: str) -> None:
    with pytest.raises(NodeLineError, match=complaint):
        parse_node_line(line)
