"""`oka bench recovery` for real, with few keys: what is killed goes on, and nothing is left."""

from __future__ import annotations

import tempfile
from pathlib import Path

import psutil
import pytest

from benchmarks.peers.flink import FLINK
from benchmarks.recovery.checkpoints import FLINK_JAVA
from benchmarks.recovery.command import RecoveryCase, measure
from benchmarks.recovery.flink_cluster import running_cluster
from benchmarks.systems import OKA

KEYS = 10_000


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where runs have their folders in this test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def flink() -> None:
    if missing := FLINK_JAVA.missing():
        pytest.skip(missing)


def case(system: str, api: str, runtime: str, settings: str = "") -> RecoveryCase:
    return RecoveryCase(system, api, runtime, "auto", 8, 1000, 1, keys=KEYS, settings=settings)


def jvms() -> list[psutil.Process]:
    return [each for each in psutil.Process().children() if each.name() == "java"]


@pytest.mark.usefixtures("nothing_left")
def test_a_worker(folder: Path) -> None:
    assert measure(case(OKA, "native", "local"), 0.5) > 0
    assert list(folder.iterdir()) == []


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("flink")
def test_a_task_manager_of_flink(folder: Path) -> None:
    assert measure(case(FLINK, "datastream", "own", "heartbeats, compressed"), 0.5) > 0
    assert list(folder.iterdir()) == []
    assert jvms() == []


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("flink")
def test_flink_says_why_it_does_not_run(folder: Path) -> None:
    with (
        pytest.raises(RuntimeError, match=r"did not take Nothing(.|\n)*oka\.peers\.Nothing"),
        running_cluster({}) as cluster,
    ):
        cluster.submit("Nothing", {})
    with (
        pytest.raises(RuntimeError, match="ended with status"),
        running_cluster({"taskmanager.memory.managed.size": "many"}),
    ):
        pass
    assert list(folder.iterdir()) == []
    assert jvms() == []
