"""What a job says while it starts and ends."""

from __future__ import annotations

import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from engine.config import JobConfig
from engine.deployment.description import OperatorStatistics, TaskStatistics, Window
from engine.job import JobHandle
from engine.network import LatencyHistogram
from engine.plan import Plan
from engine.report.progress import ProgressLine, telling
from engine.report.statistics import JobStatistics
from engine.testing.threads import ThreadLauncher
from operators import source
from operators.sinks import Collect
from operators.sources import Collection

pytestmark = pytest.mark.usefixtures("nothing_left")


class SlowToArrive:
    """A function that takes longer to unpickle than the job is silent."""

    def __call__(self, record: int) -> int:
        return record

    def __getstate__(self) -> dict[str, Any]:
        return {"slow": True}

    def __setstate__(self, state: dict[str, Any]) -> None:
        time.sleep(1.5)


class SlowToCommit(Collect):
    """A sink whose output takes as long to become final."""

    def open(self, context: Any) -> Any:
        writer = super().open(context)
        commit = writer.commit

        def slow(epoch: int, prepared: Any) -> Any:
            time.sleep(1.5)
            return commit(epoch, prepared)

        writer.commit = slow
        return writer


def run(pipeline: Any, progress: Any) -> Any:
    config = JobConfig(progress=progress)
    handle = JobHandle(Plan.of(pipeline, config), ThreadLauncher())
    try:
        return handle.wait_finished().output
    finally:
        handle.wait_stopped()


def test_a_start_and_an_end_that_take_long_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    slow = source(Collection([1, 2])).map(SlowToArrive()).sink(SlowToCommit())
    assert run(slow, "line") == [1, 2]
    said = capsys.readouterr().err.splitlines()
    assert "setting up workers 0 of 1" in said
    assert "finishing workers 0 of 1" in said


def test_a_quick_job_says_nothing_of_its_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(source(Collection([1])).map(lambda n: n).sink(Collect()), "line") == [1]
    assert "workers" not in capsys.readouterr().err


@pytest.mark.parametrize("progress", ["none", "json"])
def test_nobody_is_told_who_does_not_want_to_be(
    progress: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run(source(Collection([1])).map(SlowToArrive()).sink(Collect()), progress)
    assert "workers" not in "".join(capsys.readouterr())


def test_what_goes_on_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with telling("connecting to Ray", "line"):
        pass
    with telling("connecting to Ray", "none"):
        pass
    assert capsys.readouterr().err == "connecting to Ray\n"


def test_a_cell_shows_what_goes_on_and_then_no_longer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []

    def publish(data: dict[str, str], **_: object) -> None:
        found.append(data["text/plain"])

    shell = SimpleNamespace(kernel=object(), display_pub=SimpleNamespace(publish=publish))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    with telling("connecting to Ray") as tell:
        tell("and more")
    with telling("connecting to Ray", "none"):
        pass
    assert found == ["connecting to Ray", "and more", ""]
    assert capsys.readouterr().err == ""


def test_rates_behind_a_restart_are_those_of_the_new_tasks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = ProgressLine("line")
    for seconds, records in ((10.0, 5_000), (2.0, 4_300), (3.0, 4_450)):
        line._show(JobStatistics.of([sink(seconds, records)]))
    before, anew, behind = capsys.readouterr().err.splitlines()
    assert "500 records/s" in before
    assert "0 records/s" in anew  # it has counted up to 4,000 at the checkpoint, or to 4,299
    assert "150 records/s" in behind


def sink(seconds: float, records: int) -> TaskStatistics:
    return TaskStatistics(
        vertex="sink",
        index=0,
        operators=(OperatorStatistics("sink", records, records),),
        elapsed_seconds=seconds,
        busy_seconds=seconds,
        waiting_seconds=0.0,
        idle_seconds=0.0,
        blocked_seconds=0.0,
        source_window=None,
        sink_window=Window(0, int(seconds * 1e9), records, records),
        latency=LatencyHistogram().to_bytes(),
    )


def test_a_warning_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    line = ProgressLine("none")
    line.warn("operator 'w': 3 of 9 records came too late\n\nhint: wait\nfor them")
    line.close()
    assert caplog.messages == ["operator 'w': 3 of 9 records came too late hint: wait for them"]


def test_threads_that_warn_at_once_start_one_thread(caplog: pytest.LogCaptureFixture) -> None:
    for turn in range(100):
        line = ProgressLine("none")
        barrier = threading.Barrier(4)

        def warn(number: int, line: ProgressLine = line, barrier: Any = barrier) -> None:
            barrier.wait()
            line.warn(f"{turn}: {number}")  # noqa: B023 - the threads end before the next turn

        threads = [threading.Thread(target=warn, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        line.close()
    assert sorted(caplog.messages) == sorted(f"{t}: {n}" for t in range(100) for n in range(4))
