"""Parquet and CSV, crossed: where they go, how the job runs, sub-folders, full files, what comes.

Whatever the case: readers see each row once, in the sub-folder of its values, and nothing else is
left, neither a file nor an upload.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from engine.programs.s3_server import S3Server
from engine.testing import check_sink, run
from operators import source
from operators.sinks import ByTime, CsvSink, ParquetSink
from tests.conftest import S3_CREDENTIALS
from tests.halves import Halves, run_half, run_rest

ROWS, FIRST = 60, 35
COUNTRIES = ["CH", None, "a/b=%"]
SCHEMA = pa.schema(
    {"n": pa.int64(), "country": pa.string(), "at": pa.timestamp("us", "UTC"), "text": pa.string()}
)


def row(n: int) -> dict[str, Any]:
    moment = datetime(2026, 11, 25, tzinfo=timezone.utc) + timedelta(hours=n)
    return {"n": n, "country": COUNTRIES[n % 3], "at": moment, "text": f'"{n}\n' * 2000}


def columns(numbers: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([row(n) for n in numbers], SCHEMA)


def dictionary(numbers: Any) -> pa.RecordBatch:
    batch = columns(numbers)
    return batch.set_column(1, "country", batch["country"].dictionary_encode())


DATA: dict[str, Any] = {
    "records": lambda numbers: [row(n) for n in numbers],
    "columns": columns,
    "dictionary": dictionary,
    "empty epochs": lambda numbers: [row(n) for n in numbers if n > FIRST],
    "empty job": lambda _numbers: [],
}
MODES = {"none": None, "checkpoints": None, "resume": (2, 2), "up": (1, 3), "down": (3, 1)}
PARTITIONS: dict[str, Any] = {"none": (), "column": "country", "time": ByTime("at")}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of one S3 server for all cases."""
    root = tmp_path_factory.mktemp("s3")
    (root / "out").mkdir()
    keys = {
        "access_key": S3_CREDENTIALS["AWS_ACCESS_KEY_ID"],
        "secret_key": S3_CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    }
    with pytest.MonkeyPatch.context() as patch, S3Server(root, **keys) as server:
        for name, value in {**S3_CREDENTIALS, "AWS_ENDPOINT_URL": server.endpoint}.items():
            patch.setenv(name, value)
        yield root


def read(folder: Path, kind: Any) -> list[dict[str, Any]]:
    """What PyArrow reads; a column of the sub-folders is a text."""
    form: Any = "parquet"
    if kind is CsvSink:
        form = pa.dataset.CsvFileFormat(
            parse_options=pa.csv.ParseOptions(newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(
                strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
            ),
        )
    levels = {path.name.partition("=")[0] for path in folder.glob("*=*")}
    hive = pa.dataset.partitioning(
        pa.schema([(name, pa.string()) for name in levels]), flavor="hive"
    )
    schema = pa.schema([*SCHEMA, *(pa.field(name, pa.string()) for name in levels - {"country"})])
    return pa.dataset.dataset(folder, schema, form, partitioning=hive).to_table().to_pylist()


CASES = list(product(MODES, PARTITIONS, [False, True], DATA))
"""All of a folder; of S3 each seventh, in which each two of the values occur together."""


@pytest.mark.table(7)
@pytest.mark.parametrize(
    ("place", "mode", "partition_by", "rollover", "data"),
    [*(("folder", *case) for case in CASES), *(("s3", *case) for case in CASES[::7])],
)
@pytest.mark.parametrize("kind", [ParquetSink, CsvSink])
def test_each_row_is_there_once(
    kind: Any,
    place: str,
    mode: str,
    partition_by: str,
    rollover: bool,
    data: str,
    tmp_path: Path,
    root: Path,
) -> None:
    out = tmp_path / "out" if place == "folder" else root / "out" / tmp_path.name
    where = out if place == "folder" else f"s3://out/{tmp_path.name}"
    sink = kind(
        where,
        SCHEMA,
        partition_by=PARTITIONS[partition_by],
        max_bytes=200 if rollover else None,
        max_open_files=2,
    )
    tasks = MODES[mode]
    numbers = Halves(range(ROWS), 0 if tasks is None else FIRST, DATA[data])
    job = source(numbers).rebalance().map_batches(lambda batch: batch).sink(sink)
    settings: dict[str, Any] = {"parallelism": 2, "batch_size": 10}
    if tasks is None:
        if mode == "checkpoints":
            settings |= {"checkpoints": str(tmp_path / "kept"), "checkpoint_interval_seconds": 0.01}
        run(job, **settings)
    else:
        run_half(job, tmp_path / "kept", numbers, parallelism=tasks[0], batch_size=10)
        run_rest(job, tmp_path / "kept", parallelism=tasks[1], batch_size=10)

    expected = [row for batch in [DATA[data](range(ROWS))] for row in rows_of(batch)]
    found = read(out, kind) if out.exists() else []
    for each in found:
        if partition_by == "time":
            assert each.pop("day") == each["at"].date().isoformat()
    assert sorted(found, key=lambda each: each["n"]) == expected
    files = [path for path in out.rglob("*") if path.is_file()]
    assert all(path.name.startswith("part-") for path in files)
    if partition_by == "column" and expected:
        assert {path.parent.name for path in files} == {
            "country=CH",
            "country=__HIVE_DEFAULT_PARTITION__",
            "country=a%2Fb%3D%25",
        }
    if rollover and mode == "none" and data == "records":  # they come in batches of 64 KiB
        assert any("-c0001" in path.name for path in files)
    uploads = root / ".oka-s3" / "uploads"
    assert not uploads.exists() or not list(uploads.iterdir())


@pytest.mark.table(2)
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("place", ["folder", "s3"])
@pytest.mark.parametrize("kind", [ParquetSink, CsvSink])
def test_the_conformance_test(
    kind: Any, place: str, columns: bool, tmp_path: Path, root: Path
) -> None:
    base = tmp_path if place == "folder" else root / "out" / tmp_path.name

    def make(number: int) -> Any:
        where = (
            tmp_path / str(number) if place == "folder" else f"s3://out/{tmp_path.name}/{number}"
        )
        return kind(where, partition_by="third", max_bytes=1, max_open_files=2)

    def final(number: int) -> list[Any]:
        folder, found = base / str(number), []
        for path in folder.rglob("part-*"):
            file = pq.ParquetFile(path).read if kind is ParquetSink else partial(csv, path)
            third = int(path.parent.name.removeprefix("third="))
            found += [{"n": n, "third": third} for n in file().to_pydict()["n"]]
        return found

    def left(number: int) -> list[str]:
        hidden = [path.name for path in (base / str(number)).rglob(".*")]
        uploads = root / ".oka-s3" / "uploads"
        return hidden + [path.name for path in uploads.glob("*")]

    check_sink(
        make,
        read=final,
        record=lambda n: {"n": n, "third": n % 3},
        columns=columns,
        left=left,
    )


def csv(path: Path) -> pa.Table:
    return pa.csv.read_csv(path)


def rows_of(batch: Any) -> list[dict[str, Any]]:
    return batch.to_pylist() if isinstance(batch, pa.RecordBatch) else batch
