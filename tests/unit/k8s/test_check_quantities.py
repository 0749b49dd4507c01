"""Amounts that do not parse."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from k8s.check import quantities
from k8s.check.finding import Lint
from tests.unit.k8s.broken import Documents, assert_found, container, group, pod


@pytest.mark.parametrize(
    ("lint", "break_it", "message"),
    [
        (
            quantities.quantities,
            lambda eks: container(eks)["resources"]["limits"].update(memory="8GB"),
            "resources.limits.memory: '8GB' is no quantity",
        ),
        (
            quantities.quantities,
            lambda eks: container(eks)["resources"]["requests"].update(cpu="-1"),
            "resources.requests.cpu: '-1' is negative",
        ),
        (
            quantities.quantities,
            lambda eks: group(eks)["resources"].update(operator_slot="many"),
            "resources.operator_slot: 'many' is no quantity",
        ),
        (
            quantities.quantities,
            lambda eks: pod(eks)["volumes"][0]["emptyDir"].update(sizeLimit="8 Gi"),
            "volume tmp: '8 Gi' is no quantity",
        ),
        (
            quantities.quantities,
            lambda eks: group(eks)["rayStartParams"].update({"object-store-memory": "2 GB"}),
            "object-store-memory: '2 GB' is no quantity",
        ),
    ],
)
def test_a_broken_manifest_is_found(
    eks: Documents, lint: Lint, break_it: Callable[[Documents], object], message: str
) -> None:
    assert_found(eks, lint, break_it, message)
