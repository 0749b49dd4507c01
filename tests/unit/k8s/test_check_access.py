"""Who gets in: tokens and services."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from k8s.check import access
from k8s.check.finding import Lint
from tests.unit.k8s.broken import Documents, assert_found, cluster, container, group


@pytest.mark.parametrize(
    ("lint", "break_it", "message"),
    [
        (
            access.token,
            lambda eks: cluster(eks).pop("authOptions"),
            "authOptions.mode is None, expected 'token'",
        ),
        (
            access.token,
            lambda eks: cluster(eks)["authOptions"].pop("secretName"),
            "authOptions has no secretName",
        ),
        (
            access.token,
            lambda eks: container(eks)["env"].append({"name": "RAY_AUTH_TOKEN", "value": "x"}),
            "RAY_AUTH_TOKEN is set by hand",
        ),
        (
            access.closed_services,
            lambda eks: group(eks, "head").update(serviceType="NodePort"),
            "the service is of type 'NodePort'",
        ),
        (
            access.closed_services,
            lambda eks: eks.append(
                {"kind": "Service", "metadata": {"name": "x"}, "spec": {"type": "LoadBalancer"}}
            ),
            "Service/x: the service is of type 'LoadBalancer'",
        ),
        (
            access.usage_statistics,
            lambda eks: container(eks).update(env=[]),
            "RAY_USAGE_STATS_ENABLED is None",
        ),
    ],
)
def test_a_broken_manifest_is_found(
    eks: Documents, lint: Lint, break_it: Callable[[Documents], object], message: str
) -> None:
    assert_found(eks, lint, break_it, message)
