"""Disruption budgets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from k8s.check import disruption
from k8s.check.finding import Lint
from tests.unit.k8s.broken import Documents, assert_found, document


def budget(documents: Documents) -> dict[str, Any]:
    spec: dict[str, Any] = document(documents, "PodDisruptionBudget", "oka-word-count")["spec"]
    return spec


@pytest.mark.parametrize(
    ("lint", "break_it", "message"),
    [
        (
            disruption.budgets,
            lambda eks: budget(eks).update(minAvailable="100%"),
            "minAvailable is '100%', expected minAvailable as a number of pods",
        ),
        (
            disruption.budgets,
            lambda eks: budget(eks).update(maxUnavailable=1),
            "maxUnavailable is 1, expected minAvailable as a number of pods",
        ),
        (
            disruption.budgets,
            lambda eks: budget(eks).update(minAvailable=9),
            "minAvailable is 9, expected 1 to 5, the pods that it selects",
        ),
        (
            disruption.budgets,
            lambda eks: eks.remove(document(eks, "PodDisruptionBudget", "oka-word-count")),
            "RayJob/oka-word-count: no budget keeps all 5 of its pods",
        ),
        (
            disruption.budgets,
            lambda eks: budget(eks)["selector"].update(matchLabels={"app": "another"}),
            "expected 1 to 0",
        ),
    ],
)
def test_a_broken_manifest_is_found(
    eks: Documents, lint: Lint, break_it: Callable[[Documents], object], message: str
) -> None:
    assert_found(eks, lint, break_it, message)
