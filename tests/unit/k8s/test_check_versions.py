"""Versions of Ray."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from k8s.check import versions
from k8s.check.finding import Lint
from tests.unit.k8s.broken import Documents, assert_found, cluster, container


@pytest.mark.parametrize(
    ("lint", "break_it", "message"),
    [
        (
            versions.ray_versions,
            lambda eks: cluster(eks).update(rayVersion="2.59.0"),
            "rayVersion is '2.59.0', expected 2.60.0",
        ),
        (
            versions.ray_versions,
            lambda eks: container(eks).update(image="oka:0.1.0-ray2.59.0"),
            "image 'oka:0.1.0-ray2.59.0' has Ray 2.59.0, expected 2.60.0",
        ),
        (
            versions.ray_versions,
            lambda eks: container(eks).update(image="registry:5000/oka"),
            "expected a tag that ends in -ray and Ray's version",
        ),
    ],
)
def test_a_broken_manifest_is_found(
    eks: Documents, lint: Lint, break_it: Callable[[Documents], object], message: str
) -> None:
    assert_found(eks, lint, break_it, message)
