"""Jobs whose sources are ended from outside: by `stop`, or by an operator that has enough."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import engine
from operators import Count, Max, Stream, source
from operators.sinks import Collect, JsonLines
from operators.sources import Function, RandomWords
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("nothing_left")


def endless(context: Any) -> Iterator[list[int]]:
    number = context.index
    while True:
        yield list(range(number, number + 100 * context.parallelism, context.parallelism))
        number += 100 * context.parallelism


def submit(pipeline: Any, **settings: Any) -> engine.JobHandle:
    return engine.submit(pipeline, progress="none", placement="parallelism_first", **settings)


def until_records_came(handle: engine.JobHandle) -> None:
    wait_until(lambda: handle.statistics().source_records > 0)


def test_what_was_emitted_arrives_and_stays(runtime: str, tmp_path: Path) -> None:
    numbers = source(Function(endless, rate=50_000)).rebalance().map(lambda n: (n % 10, n))
    counts = numbers.key_by(0).aggregate(n=Count(), most=Max(1), emit="final")
    pipelines = [counts.sink(Collect()), numbers.sink(JsonLines(tmp_path))]
    parallelism = 2 if runtime == "local" else 1  # a worker of Ray takes a CPU second to start
    handle = submit(pipelines, runtime=runtime, parallelism=parallelism)
    until_records_came(handle)
    handle.stop()
    handle.stop()
    result = handle.wait_finished(60.0)
    written = [
        json.loads(line) for part in tmp_path.iterdir() for line in part.read_text().splitlines()
    ]
    assert len(written) == result.statistics.source_records > 0
    totals = dict(result.output)
    assert sum(total["n"] for total in totals.values()) == len(written)
    assert max(total["most"] for total in totals.values()) == max(n for _, n in written)
    assert not [path for path in tmp_path.iterdir() if path.suffix != ".jsonl"]
    handle.stop()


def test_a_source_that_waits_for_its_moment_is_woken() -> None:
    words = source(RandomWords(length=4, seconds=600, rate=0.01)).sink(Collect())
    handle = submit(words, batch_size=1)
    until_records_came(handle)
    handle.stop()
    assert 1 <= len(handle.wait_finished(300).output) <= 2


def test_a_generator_is_closed() -> None:
    def noted(path: str) -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            Path(path).write_text("closed")

    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "noted")
        handle = submit(source(Function(lambda: noted(path))).sink(Collect()))
        until_records_came(handle)
        handle.stop()
        handle.wait_finished(300)
        assert Path(path).read_text() == "closed"


def test_a_job_that_is_told_as_it_starts_ends() -> None:
    handle = submit(source(Function(endless)).key_by().count(emit="final").sink(Collect()))
    handle.stop()
    handle.wait_finished(300)


def test_a_job_that_does_not_stop_can_be_cancelled() -> None:
    def stuck() -> Iterator[list[int]]:
        yield [1] * 1000
        time.sleep(3600)

    handle = submit(source(Function(stuck)).sink(Collect()))
    until_records_came(handle)
    handle.stop()
    with pytest.raises(TimeoutError):
        handle.wait_finished(0.5)
    handle.cancel()
    with pytest.raises(engine.JobCancelled):
        handle.wait_finished(300)
    handle.wait_stopped()


@pytest.mark.again_on_ray
def test_a_job_ends_when_it_has_what_was_wanted(runtime: str) -> None:
    stream: Stream[Any] = source(Function(endless)).key_by(lambda n: n % 7).count().take(1000)
    handle = submit(stream.sink(Collect()), runtime=runtime, parallelism=3)
    assert len(handle.wait_finished(60.0).output) == 1000
