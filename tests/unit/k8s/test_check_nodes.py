"""Nodes of EKS and the pods on them."""

from __future__ import annotations

from typing import Any

import pytest

from k8s.check.nodes import nodes_hold_pods
from k8s.manifests import FOLDER, load
from tests.unit.k8s.broken import Documents, container, pod


@pytest.fixture
def nodes() -> dict[str, Any]:
    (found,) = load((FOLDER / "eks" / "cluster.yaml").read_text(encoding="utf-8"))
    return found


def test_nodes_of_eks_hold_the_pods_of_the_overlay(eks: Documents, nodes: dict[str, Any]) -> None:
    assert not list(nodes_hold_pods(eks, nodes))


@pytest.mark.parametrize(
    ("resource", "amount"), [("cpu", "8"), ("memory", "15Gi"), ("cpu", "7900m")]
)
def test_a_pod_that_is_too_large(
    eks: Documents, nodes: dict[str, Any], resource: str, amount: str
) -> None:
    container(eks)["resources"]["limits"][resource] = amount
    (finding,) = nodes_hold_pods(eks, nodes)
    assert "a node of 'workers' (c7i.2xlarge) has about 7.7 and 14.2Gi for pods" in str(finding)


def test_a_label_that_no_node_has(eks: Documents, nodes: dict[str, Any]) -> None:
    pod(eks)["nodeSelector"] = {"oka.dev/node": "wrker"}
    (finding,) = nodes_hold_pods(eks, nodes)
    assert "no node group has the labels {'oka.dev/node': 'wrker'}" in str(finding)


def test_a_family_that_is_not_regular_is_not_judged(eks: Documents, nodes: dict[str, Any]) -> None:
    for group in nodes["managedNodeGroups"]:
        group["instanceType"] = "t3.small"
    assert not list(nodes_hold_pods(eks, nodes))
