"""Ports and network policies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from k8s.check import ports
from k8s.check.finding import Lint
from tests.unit.k8s.broken import Documents, assert_found, document, group, settings


def rule(documents: Documents) -> dict[str, Any]:
    found: dict[str, Any] = document(documents, "NetworkPolicy", "oka-ray")["spec"]["ingress"][0]
    return found


@pytest.mark.parametrize(
    ("lint", "break_it", "message"),
    [
        (
            ports.policy_ports,
            lambda eks: rule(eks)["ports"].pop(),
            "does not name 20000-20999 (port_range of RayJob/oka-model-broadcast)",
        ),
        (
            ports.policy_ports,
            lambda eks: rule(eks)["ports"][-1].update(endPort=21999),
            "names 20000-21999, which is more than is configured",
        ),
        (
            ports.policy_ports,
            lambda eks: rule(eks)["ports"].append({"protocol": "TCP", "port": 22}),
            "names 22, which nothing listens on",
        ),
        (
            ports.policy_ports,
            lambda eks: group(eks)["rayStartParams"].update({"object-manager-port": "7000"}),
            "does not name 7000 (object-manager-port)",
        ),
        (
            ports.fixed_ports,
            lambda eks: group(eks)["rayStartParams"].pop("node-manager-port"),
            "node-manager-port is not set",
        ),
        (
            ports.one_range,
            lambda eks: settings(eks, "port_range: 20000-20999", "port_range: 19000-20999"),
            "RayJob/oka-word-count: port_range 19000-20999 has ports of Ray's",
        ),
        (
            ports.one_range,
            lambda eks: settings(eks, "port_range: 20000-20999", ""),
            "RayJob/oka-word-count: has no port_range in its settings",
        ),
        (
            ports.isolation,
            lambda eks: rule(eks).pop("from"),
            "NetworkPolicy/oka-ray ingress: is for everybody",
        ),
        (
            ports.isolation,
            lambda eks: document(eks, "NetworkPolicy", "oka-aws")["spec"]["egress"][0]["to"].append(
                {"ipBlock": {"cidr": "0.0.0.0/0"}}
            ),
            "NetworkPolicy/oka-aws egress: is for everybody",
        ),
        (ports.isolation, lambda eks: rule(eks).pop("ports"), "is for all ports"),
        (
            ports.isolation,
            lambda eks: eks.clear(),
            "none of Ray pods is for Egress",
        ),
    ],
)
def test_a_broken_manifest_is_found(
    eks: Documents, lint: Lint, break_it: Callable[[Documents], object], message: str
) -> None:
    assert_found(eks, lint, break_it, message)
