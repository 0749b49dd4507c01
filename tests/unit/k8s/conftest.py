"""Manifests to break: those of both overlays, built once."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from k8s.manifests import build


@pytest.fixture(scope="session")
def _built() -> dict[str, list[dict[str, Any]]]:
    return {overlay: build(overlay) for overlay in ("dev", "eks")}


@pytest.fixture
def eks(_built: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The overlay `eks`, to change at will."""
    return copy.deepcopy(_built["eks"])


@pytest.fixture
def dev(_built: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The overlay `dev`, to change at will."""
    return copy.deepcopy(_built["dev"])
