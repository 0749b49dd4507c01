"""How pods and jobs end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from k8s.check import lifecycle
from k8s.check.finding import Lint
from tests.unit.k8s.broken import Documents, assert_found, container, document, pod


def job(documents: Documents) -> dict[str, Any]:
    spec: dict[str, Any] = document(documents, "RayJob", "oka-word-count")["spec"]
    return spec


@pytest.mark.parametrize(
    ("lint", "break_it", "message"),
    [
        (
            lifecycle.drain,
            lambda eks: pod(eks).update(terminationGracePeriodSeconds=30),
            "terminationGracePeriodSeconds is 30, expected 60 or more",
        ),
        (
            lifecycle.drain,
            lambda eks: pod(eks).update(terminationGracePeriodSeconds=60),
            "DRAIN_SECONDS is 60, expected less than the 60 s of its end",
        ),
        (
            lifecycle.drain,
            lambda eks: container(eks).pop("lifecycle"),
            "has no preStop that drains it",
        ),
        (lifecycle.job_ends, lambda eks: job(eks).pop("backoffLimit"), "backoffLimit is not set"),
        (
            lifecycle.job_ends,
            lambda eks: job(eks).pop("activeDeadlineSeconds"),
            "activeDeadlineSeconds is not set",
        ),
        (
            lifecycle.job_ends,
            lambda eks: job(eks).update(shutdownAfterJobFinishes=False),
            "shutdownAfterJobFinishes is not true",
        ),
        (
            lifecycle.job_ends,
            lambda eks: job(eks).pop("submitterPodTemplate"),
            "has no submitterPodTemplate",
        ),
        (
            lifecycle.references,
            lambda eks: pod(eks).update(serviceAccountName="oak"),
            "names ServiceAccount 'oak', which is not there",
        ),
        (
            lifecycle.references,
            lambda eks: eks.remove(document(eks, "ConfigMap", "oka-jobs")),
            "names ConfigMap 'oka-jobs', which is not there",
        ),
        (
            lifecycle.references,
            lambda eks: pod(eks)["volumes"].pop(),
            "mounts 'shm', no volume of it",
        ),
    ],
)
def test_a_broken_manifest_is_found(
    eks: Documents, lint: Lint, break_it: Callable[[Documents], object], message: str
) -> None:
    assert_found(eks, lint, break_it, message)
