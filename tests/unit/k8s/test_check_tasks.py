"""Jobs that cannot run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from k8s.check import tasks
from k8s.check.finding import Lint
from tests.unit.k8s.broken import Documents, assert_found, document, settings


def workers(documents: Documents) -> list[dict[str, Any]]:
    spec = document(documents, "RayJob", "oka-word-count")["spec"]
    found: list[dict[str, Any]] = spec["rayClusterSpec"]["workerGroupSpecs"]
    return found


def entrypoint(documents: Documents, command: str) -> None:
    document(documents, "RayJob", "oka-word-count")["spec"]["entrypoint"] = command


@pytest.mark.parametrize(
    ("lint", "break_it", "message"),
    [
        (
            tasks.tasks,
            lambda eks: workers(eks)[0].update(replicas=3),
            "found no place for all tasks",
        ),
        (
            tasks.tasks,
            lambda eks: settings(eks, "parallelism: 12", "parallelism: 25"),
            "found no place for all tasks",
        ),
        (
            tasks.tasks,
            lambda eks: settings(eks, "parallelism: 12", "parallelism: 0"),
            "parallelism is 0, expected an integer of at least 1",
        ),
        (
            tasks.tasks,
            lambda eks: settings(eks, "runtime: ray", "runtime: local"),
            "runtime is 'local', expected 'ray'",
        ),
        (
            tasks.tasks,
            lambda eks: entrypoint(eks, "python word_count.py"),
            "its entrypoint does not begin with `oka run`",
        ),
        (
            tasks.tasks,
            lambda eks: entrypoint(eks, "oka run pipelines/word_count.py --paralelism 2"),
            "No such option",
        ),
        (
            tasks.tasks,
            lambda eks: entrypoint(eks, "oka run pipelines/word_count.py --config /etc/x.yaml"),
            "--config is /etc/x.yaml, expected a file of its ConfigMap",
        ),
        (
            tasks.tasks,
            lambda eks: entrypoint(eks, "oka run pipelines/word_count.py repeats=20"),
            "got an unexpected keyword argument 'repeats'",
        ),
    ],
)
def test_a_broken_manifest_is_found(
    eks: Documents, lint: Lint, break_it: Callable[[Documents], object], message: str
) -> None:
    assert_found(eks, lint, break_it, message)
