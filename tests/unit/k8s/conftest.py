"""Manifests to break: those of both overlays, built once; and each document is validated once."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from k8s.check import programs
from k8s.check.finding import Finding
from k8s.manifests import build


@pytest.fixture(scope="session")
def _built() -> dict[str, list[dict[str, Any]]]:
    return {overlay: build(overlay) for overlay in ("dev", "eks")}


@pytest.fixture(scope="session", autouse=True)
def _validated() -> Iterator[None]:
    """What kubectl-validate said of a document in an earlier test, it says again.

    It compiles all rules for each document: 0.1 CPU seconds, and half a second to start.
    """
    known: dict[str, list[Finding]] = {}
    refused = programs._refused

    def once(documents: Sequence[str]) -> dict[str, list[Finding]]:
        programs.tool("kubectl-validate")  # or it is missing
        if new := [each for each in documents if each not in known]:
            found = refused(new)
            known.update((each, found.get(each, [])) for each in new)
        return {each: list(known[each]) for each in documents if known[each]}

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(programs, "_refused", once)
        yield


@pytest.fixture
def eks(_built: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The overlay `eks`, to change at will."""
    return copy.deepcopy(_built["eks"])


@pytest.fixture
def dev(_built: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The overlay `dev`, to change at will."""
    return copy.deepcopy(_built["dev"])
