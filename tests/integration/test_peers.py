"""Peers for real: those that are installed count right, and those that go wrong say so and end."""

from __future__ import annotations

import contextlib
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from benchmarks.measurement import Case, Measurement, Run
from benchmarks.peers import peer as peer_module
from benchmarks.peers.jvm import JVM_PEERS
from benchmarks.peers.peer import Peer
from benchmarks.peers.registry import PEERS
from engine.network import LatencyHistogram


@pytest.fixture(autouse=True)
def nothing_left_of_a_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Fail if a process or a folder of a run is left; the folder's path is short for Ray's sake."""
    tmp_path_factory.getbasetemp()  # pytest's own folder is not to be in it
    with tempfile.TemporaryDirectory(prefix="p-", dir="/tmp") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield
        assert list(Path(folder).iterdir()) == []
        assert _processes_of_runs_in(folder) == []


def measure(peer: Peer, parallelism: int = 1, rate: float | None = None) -> Measurement:
    case = Case(peer.system, peer.api, "processes", "", 32, 100, parallelism, "closed")
    seconds = 3.0 if peer.api == "windows" else 1.0  # a window comes out a second after its end
    return peer.measure(case, Run(seconds=seconds, warmup=0.2, rate=rate, seed=0))


def marks_of(peer: Peer) -> list[pytest.MarkDecorator]:
    """Each cell on Ray starts a cluster."""
    return [pytest.mark.ray, pytest.mark.again_on_ray] if peer.system.startswith("ray_") else []


@pytest.mark.parametrize(
    ("peer", "parallelism"),
    [
        pytest.param(
            each,
            parallelism,
            id=f"{each.system}-{each.api}-{parallelism}",
            marks=marks_of(each),
        )
        for each in PEERS
        if each not in JVM_PEERS  # test_jvm_peers.py gives them the time that they need
        for parallelism in (1, 2)
    ],
)
def test_a_peer_counts_right(peer: Peer, parallelism: int) -> None:
    missing = peer.missing()
    if missing is not None:
        pytest.skip(missing)
    if parallelism > peer.most_tasks:
        pytest.skip(f"{peer.system} {peer.api} has at most {peer.most_tasks} tasks")
    found = measure(peer, parallelism)
    assert found.records > 1000
    assert found.throughput > 1000
    assert found.cpu_seconds_per_million > 0
    if peer.has_rate:
        latency = LatencyHistogram()
        latency.merge(found.histogram)
        assert latency.count > 0


def test_a_peer_is_offered_words_at_a_rate() -> None:
    pair = PEERS[0]
    found = measure(pair, rate=20_000.0)
    assert 0 < found.throughput <= 22_000
    assert found.records <= 22_000 * 1.2


def test_what_is_not_installed_says_how_to_install_it() -> None:
    absent = Peer("absent", "lists", "per_record", "no-such-environment", "multiprocessing_pipe.py")
    with pytest.raises(
        RuntimeError, match=r"absent is not installed in .*\n\nhint: make peers-no-such-environment"
    ):
        measure(absent)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Peer]:
    """A peer whose program is this text."""
    monkeypatch.setattr(peer_module, "PROGRAMS", tmp_path)

    def write(text: str, start_seconds: float = 1.0) -> Peer:
        start = "from program import Settings, Window, Words\nsettings = Settings.of_arguments()\n"
        (tmp_path / "broken.py").write_text(start + textwrap.dedent(text))
        return Peer("broken", "lists", "per_record", None, "broken.py", start_seconds=start_seconds)

    return write


def test_a_program_that_crashes_gives_its_last_lines(program: Callable[..., Peer]) -> None:
    crash = "print('about to fail', flush=True); raise ValueError('no such thing')"
    broken = program(crash, start_seconds=60.0)
    with pytest.raises(
        RuntimeError, match="broken lists ended with status 1; its last lines:"
    ) as e:
        measure(broken)
    assert "about to fail" in str(e.value)
    assert "ValueError: no such thing" in str(e.value)


def test_a_program_that_hangs_is_killed_with_all_its_processes(
    program: Callable[..., Peer],
) -> None:
    # The child leaves the session and the parent ends: only the mark in its environment is left.
    broken = program(
        """
        import subprocess, sys, time
        sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
        nested = f"import subprocess; subprocess.Popen({sleep!r}, start_new_session=True)"
        subprocess.run([sys.executable, "-c", nested])
        print("waiting for nothing", flush=True)
        time.sleep(600)
        """,
        start_seconds=10.0,  # until it has printed, on a busy machine
    )
    with pytest.raises(RuntimeError, match=r"was not done after \d+ s, expected started-") as error:
        measure(broken)
    assert "waiting for nothing" in str(error.value)


def test_counts_that_differ_are_refused(program: Callable[[str], Peer]) -> None:
    broken = program(
        """
        words, window, counts = Words(settings), Window(settings), {}
        for batch, stamp in words:
            for word in batch:
                counts[word] = counts.get(word, 0) + 1
            window.arrived(len(batch), stamp)
        some = sorted(counts)
        counts[some[0]] += 1  # the sum is the same
        counts[some[1]] -= 1
        window.write(counts, 0.1)
        words.write(0.1)
        """,
        start_seconds=60.0,
    )
    with pytest.raises(RuntimeError, match="expected the same of every word"):
        measure(broken)


def _processes_of_runs_in(folder: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("OKA_PEER_RUN", "").startswith(f"{folder}/"):
                found.append(process)
    return found
