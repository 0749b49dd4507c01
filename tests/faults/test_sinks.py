"""A sink that cannot write fails the job by name, with the record, and leaves no file."""

from __future__ import annotations

import math
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import engine
from operators import Pipeline, source
from operators.sinks import Callback, Counts, CsvSink, JsonLines, LineFiles, ParquetSink, Print
from operators.sources import Collection
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("nothing_left")


class NoText:
    def __str__(self) -> str:
        raise SystemExit("no text")

    __repr__ = __str__


def no_text(n: int) -> Any:
    return NoText() if n == 3 else n


def limit_files(text: str) -> str:
    """From now on the disk is full, as far as this process goes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    return text


def refuse(_: Any) -> None:
    raise ValueError("no room")


def numbers() -> Any:
    return source(Collection(range(5)))


def rows(count: int) -> Any:
    """Rows of some 100 bytes, which hardly become smaller."""
    chance = Random(1)
    texts = [{"half": n % 2, "text": chance.randbytes(50).hex()} for n in range(count)]
    return source(Collection(texts)).map(lambda row: row | {"text": limit_files(row["text"])})


CASES: dict[str, tuple[Callable[[Path], Pipeline], str]] = {
    "full disk": (
        lambda out: source(Collection(["x" * 99] * 10_000)).map(limit_files).sink(LineFiles(out)),
        r"operator 'line_files' .* failed: OSError: \[Errno 27\] File too large$",
    ),
    "disk that is full at the end": (
        lambda out: source(Collection(["x" * 99] * 1_003)).map(limit_files).sink(LineFiles(out)),
        r"operator 'line_files' .* failed: OSError: \[Errno 27\] File too large$",
    ),
    "full disk of columns": (
        lambda out: rows(10_000).sink(ParquetSink(out, partition_by="half", max_bytes=50_000)),
        r"operator 'parquet_sink' .* failed: OSError: \[Errno 27\] File too large",
    ),
    "disk that is full at the end of columns": (
        lambda out: rows(3_000).sink(ParquetSink(out, compression="none")),
        r"operator 'parquet_sink' .* failed: OSError: \[Errno 27\] File too large",
    ),
    "full disk of csv": (
        lambda out: rows(10_000).sink(CsvSink(out)),
        r"operator 'csv_sink' .* failed: OSError: \[Errno 27\] File too large",
    ),
    "full disk of packed csv": (
        lambda out: rows(30_000).sink(CsvSink(out, compression="gzip")),
        r"operator 'csv_sink' .* failed: OSError: \[Errno 27\] File too large",
    ),
    "nan": (
        lambda out: source(Collection([1.5, math.nan])).sink(JsonLines(out)),
        r"operator 'json_lines' .* failed on record nan: ValueError: JSON cannot express it: ",
    ),
    "callback of batches": (
        lambda out: numbers().rebalance().sink(Callback(refuse, batches=True)),
        r"operator 'callback' .* failed: ValueError: no room\n\n  File .*\n    raise ValueError",
    ),
    "callback": (
        lambda out: numbers().rebalance().sink(Callback(refuse)),
        r"operator 'callback' .* failed on record 0: ValueError: no room\n\n  File ",
    ),
    "a failing str": (
        lambda out: numbers().map(no_text).sink(LineFiles(out)),
        r"'line_files' .* failed on record <NoText, whose repr raised SystemExit>: SystemExit: no",
    ),
    "a failing str to print": (
        lambda out: numbers().map(no_text).sink(Print()),
        r"'print' .* failed on record <NoText, whose repr raised SystemExit>: SystemExit: no",
    ),
    "three columns": (
        lambda out: source(Collection([pa.record_batch({"a": [1], "b": [1], "c": [1]})])).sink(
            Counts()
        ),
        r"operator 'counts' .* failed: TypeError: Counts got the columns a, b, c, expected two",
    ),
}


@pytest.mark.again_on_ray
@pytest.mark.parametrize("case", CASES)
def test_a_sink_that_cannot_write(case: str, runtime: str, tmp_path: Path) -> None:
    build, message = CASES[case]
    out = tmp_path / "out"
    with pytest.raises(engine.OperatorError, match=message):
        engine.execute(build(out), runtime=runtime)
    assert not out.exists() or not list(out.iterdir())


SINKS: dict[str, Callable[[Path], Any]] = {
    "parquet": lambda out: ParquetSink(out, partition_by="third", max_bytes=2_000),
    "csv": lambda out: CsvSink(out, max_bytes=2_000, compression="gzip"),
}


@pytest.mark.table(2)
@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("how", ["killed", "cancelled"])
@pytest.mark.parametrize("checkpoints", [False, True])
def test_files_of_a_job_that_ends_early_are_never_seen(
    sink: str, how: str, checkpoints: bool, tmp_path: Path
) -> None:
    out, pid = tmp_path / "out", tmp_path / "pid"

    def row(n: int) -> dict[str, int]:
        if not pid.exists():
            pid.write_text(str(os.getpid()))
        return {"third": n % 3, "n": n}

    settings: dict[str, Any] = {"batch_size": 50}
    if checkpoints:  # of which the first one does not come
        settings |= {"checkpoints": str(tmp_path / "kept"), "checkpoint_interval_seconds": 600.0}
        settings["restarts"] = 0
    numbers = source(Collection(range(1_000_000), rate=20_000.0)).rebalance().map(row)
    handle = engine.submit(numbers.sink(SINKS[sink](out)), **settings)
    try:
        hidden = wait_until(lambda: [p for p in out.glob(".part-*-c0003*") if p.is_file()])
        assert hidden
        assert not [path for path in out.rglob("*") if path.name.startswith("part-")]
        if how == "killed":
            os.kill(int(pid.read_text()), signal.SIGKILL)
            with pytest.raises(engine.WorkerLost):
                handle.wait_finished()
    finally:
        handle.cancel()
        handle.wait_stopped()
    left = [path.name for path in out.rglob("*")]
    assert not [name for name in left if name.startswith("part-")]
    if not checkpoints or how == "cancelled":
        assert left == []


PRINTING = """
import sys
import engine
from operators import source
from operators.sinks import Print
from operators.sources import Collection

if __name__ == "__main__":
    try:
        engine.execute(source(Collection([1])).sink(Print()), progress="none")
    except engine.OperatorError as error:
        sys.stderr.write(f"told: {error.operator}: {error.error}")
    else:
        sys.stderr.write("printed")
"""


@pytest.mark.parametrize(
    ("redirection", "told"),
    [
        (">&-", "told: print: OSError: there is no standard output to print to: it was closed"),
        (">/dev/full", "told: print: OSError: [Errno 28] No space left on device"),
        ("| head -c 0; sleep 0", "told: print: BrokenPipeError: [Errno 32] Broken pipe"),
        (">/dev/null", "printed"),
    ],
)
def test_printing_where_nobody_reads_is_an_error(
    redirection: str, told: str, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(PRINTING)
    environment = {**os.environ, "PYTHONPATH": str(Path(engine.__file__).parents[1])}
    done = subprocess.run(
        ["bash", "-c", f'"{sys.executable}" "{script}" {redirection}'],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        timeout=300,
    )
    assert done.stderr.startswith(told)


@pytest.mark.again_on_ray
def test_all_nan_are_one_key_of_a_job(runtime: str) -> None:
    nans = [math.nan, np.float32("nan"), Decimal("NaN"), Decimal("sNaN"), complex("nan")]
    records = [(nan, 1) for nan in nans * 3] + [(1, 1)]
    stream = source(Collection(records)).with_parallelism(1)
    for key in (0, lambda record: record[0]):
        counted = stream.key_by(key).reduce(lambda a, b: (a[0], a[1] + b[1]))
        output = engine.execute(counted.sink(Counts()), runtime=runtime, parallelism=3).output
        assert output == {math.nan: 15, 1: 1}
