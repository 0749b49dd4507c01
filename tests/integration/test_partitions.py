"""Sources of partitions in running jobs: each record comes once, in the order of its partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.testing import run
from operators import source
from operators.sinks import Callback, Collect
from tests.partitioned import LOGS, Logs, LogSource, gather, job, stop
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("nothing_left")
NAME = "test"
FORMS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "record batch": lambda found: pa.RecordBatch.from_pylist(found),
    "table": lambda found: pa.Table.from_pylist(found),
    "stream": lambda found: pa.table({k: [r[k] for r in found] for k in found[0]}).to_reader(5),
}


@pytest.fixture
def logs() -> Iterator[Logs]:
    LOGS[NAME] = logs = Logs(**{f"p{i}": rows(i, 90 + i) for i in range(5)})
    yield logs
    del LOGS[NAME]


def rows(partition: int, count: int, start: int = 0) -> list[dict[str, int]]:
    return [{"p": partition, "n": n} for n in range(start, start + count)]


def check(logs: Logs, came: list[Any]) -> None:
    """All came once, those of a partition in their order."""
    by_partition: dict[int, list[int]] = {}
    for row in came:
        by_partition.setdefault(row["p"], []).append(row["n"])
    assert by_partition == {
        each[0]["p"]: [row["n"] for row in each] for each in logs.lists.values() if each
    }
    assert not any(logs.open.values())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("most", [None, 50, 3])
@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("parallelism", [1, 2, 7])
def test_each_record_comes_once(
    logs: Logs, form: str, most: int | None, bounded: bool, parallelism: int
) -> None:
    logs.ended = True
    columns = form != "list"
    read = LogSource(NAME, form=FORMS[form], most=most, bounded=bounded, columns=columns)
    stream = source(read)
    given = run(
        (stream.to_records() if columns else stream).sink(Collect()),
        parallelism=parallelism,
        batch_size=16,
    )["collect"]
    check(logs, given)


def test_partitions_of_a_bounded_source_are_opened_one_at_a_time(logs: Logs) -> None:
    check(logs, run(source(LogSource(NAME)).sink(Collect()), parallelism=1)["collect"])
    assert logs.most_open == 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("parallelism", [(2, 3, 1), (1, 1, 2)])
def test_a_job_that_is_stopped_goes_on_at_any_parallelism(
    logs: Logs, form: str, parallelism: tuple[int, ...], tmp_path: Path
) -> None:
    columns = form != "list"
    read = LogSource(
        NAME, form=FORMS[form], bounded=False, discover_seconds=0.01, columns=columns, most=40
    )
    stream = source(read)
    pipeline = (stream.to_records() if columns else stream).sink(Callback(partial(gather, NAME)))
    for number, tasks in enumerate(parallelism):
        handle = job(
            pipeline,
            parallelism=tasks,
            batch_size=7,
            checkpoints=str(tmp_path),
            checkpoint_interval_seconds=0.05,
            resume=f"s{number - 1}" if number else None,
        )
        logs.lists[f"p{10 + number}"] = rows(10 + number, 30)  # found while it runs
        wait_until(lambda: len(logs.came) == len(logs.records()))
        logs.lists["p1"] += rows(1, 40, start=len(logs.lists["p1"]))
        stop(handle, f"s{number}")
        logs.lists[f"p{20 + number}"] = rows(20 + number, 30)  # found when it goes on
    logs.ended, read.discover_seconds = True, None
    run(pipeline, checkpoints=str(tmp_path), resume="latest", parallelism=2)
    check(logs, logs.came)
