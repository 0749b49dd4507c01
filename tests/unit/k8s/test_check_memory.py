"""Memory and disk of pods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from k8s.check import memory
from k8s.check.finding import Lint
from tests.unit.k8s.broken import Documents, assert_found, container, group, pod


def shm(documents: Documents) -> dict[str, Any]:
    volume: dict[str, Any] = pod(documents)["volumes"][2]["emptyDir"]
    return volume


@pytest.mark.parametrize(
    ("lint", "break_it", "message"),
    [
        (
            memory.reserved,
            lambda eks: container(eks)["resources"]["requests"].update(memory="1Gi"),
            "requests '1Gi' of memory, expected its limit '8Gi'",
        ),
        (
            memory.reserved,
            lambda eks: container(eks)["resources"]["limits"].pop("ephemeral-storage"),
            "has no limit of ephemeral-storage",
        ),
        (
            memory.object_store,
            lambda eks: group(eks)["rayStartParams"].pop("object-store-memory"),
            "object-store-memory is not set",
        ),
        (
            memory.object_store,
            lambda eks: shm(eks).pop("medium"),
            "has no /dev/shm in memory with a sizeLimit",
        ),
        (
            memory.object_store,
            lambda eks: shm(eks).update(sizeLimit="1Gi"),
            "object-store-memory is 2Gi, expected at most the 1Gi of /dev/shm",
        ),
        (
            memory.object_store,
            lambda eks: shm(eks).update(sizeLimit="7Gi"),
            "its shared memory (7Gi) and object-store-memory (2Gi) are more than",
        ),
        (
            memory.memory_sum,
            lambda eks: group(eks)["resources"].update(operator_slot="20"),
            "needs 12800Mi (Ray, 20 tasks, /dev/shm), has a limit of 8Gi",
        ),
        (
            memory.disk_sum,
            lambda eks: pod(eks)["volumes"][0]["emptyDir"].update(sizeLimit="20Gi"),
            "its volumes have 21Gi, expected at most its ephemeral-storage, 10Gi",
        ),
        (
            memory.disk_sum,
            lambda eks: pod(eks)["volumes"][0]["emptyDir"].clear(),
            "volume tmp has no sizeLimit",
        ),
    ],
)
def test_a_broken_manifest_is_found(
    eks: Documents, lint: Lint, break_it: Callable[[Documents], object], message: str
) -> None:
    assert_found(eks, lint, break_it, message)
