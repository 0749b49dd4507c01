"""The peers on the JVM, run for real: every word that was emitted is counted."""

import dataclasses
import os
import tempfile
from pathlib import Path

import psutil
import pytest

from benchmarks.measurement import Case, Run
from benchmarks.peers.jvm import JVM_PEERS
from benchmarks.peers.peer import Peer


def name(peer: Peer) -> str:
    return f"{peer.system}-{peer.api}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where runs have their folders in this test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def measure(peer: Peer, parallelism: int = 1, rate: float | None = None) -> None:
    """Run it for 2 s; Peer.measure raises where the counts differ."""
    if missing := peer.missing():
        pytest.skip(missing)
    case = Case(peer.system, peer.api, "jvm", "own", 32, 100, parallelism, "closed")
    measurement = peer.measure(case, Run(2.0, 1.0, rate, seed=1))
    assert measurement.throughput > 0
    assert measurement.cpu_seconds_per_million > 0
    has_latencies = peer.system == "flink_java" or peer.api.startswith("datastream")
    assert bool(measurement.histogram) == has_latencies
    if rate is not None:
        assert measurement.records == pytest.approx(rate * 3.0, rel=0.1)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("peer", JVM_PEERS, ids=name)
def test_every_word_is_counted_and_nothing_is_left(peer: Peer, folder: Path) -> None:
    measure(peer)
    assert list(folder.iterdir()) == []
    assert still_running(folder) == []


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "peer", [peer for peer in JVM_PEERS if peer.api in ("datastream", "sql", "native")], ids=name
)
def test_two_tasks_of_each_operator(peer: Peer, folder: Path) -> None:
    measure(peer, parallelism=2)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "peer", [peer for peer in JVM_PEERS if peer.api in ("datastream", "sql")], ids=name
)
def test_words_at_a_rate(peer: Peer, folder: Path) -> None:
    assert peer.has_rate
    measure(peer, rate=50_000)


@pytest.mark.timeout(900)
def test_a_failure_says_why(folder: Path) -> None:
    peer = JVM_PEERS[0]
    if missing := peer.missing():
        pytest.skip(missing)
    broken = Case(peer.system, peer.api, "jvm", "own", 32, 100, -2, "closed")
    told = r"flink_java datastream ended with status 1(.|\n)*parallelism of an operator must be at"
    with pytest.raises(RuntimeError, match=told):
        peer.measure(broken, Run(1.0, 0.5, None, seed=1))
    assert list(folder.iterdir()) == []


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = dataclasses.replace(JVM_PEERS[0], environment="absent")
    monkeypatch.setenv("PATH", "")
    assert peer.missing() == "flink_java needs Java 17, and there is no java on the PATH"


def still_running(folder: Path) -> list[str]:
    """Command lines of the processes that were started for a run below a folder."""
    found = []
    for process in psutil.process_iter():
        try:
            environment = process.environ()
        except psutil.Error:
            continue
        if environment.get("OKA_PEER_RUN", "").startswith(str(folder) + os.sep):
            found.append(" ".join(process.cmdline()))
    return found
