"""Files as columns: each row comes once, wherever a job stopped and whatever came to the files."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
import pytest

from engine.config import JobConfig
from engine.errors import CheckpointError, StorageError
from engine.graph.context import TaskContext
from engine.job import JobHandle
from engine.plan import Plan
from engine.programs.s3_server import S3Server
from engine.testing import check_source
from engine.testing.threads import ThreadLauncher
from operators import source
from operators.sinks import Collect, Discard
from operators.sources import CsvFiles, JsonFiles, ParquetFiles
from operators.sources.files import parquet_files, text
from operators.sources.files.source import ColumnFiles
from operators.sources.files.text import TextColumnFiles
from tests import rescaling
from tests.integration.s3_server import ACCESS_KEY, SECRET_KEY, serving
from tests.waiting import wait_until

ENDED = "ended"
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[S3Server, Path]]:
    folder = tmp_path_factory.mktemp("objects")
    with serving(folder) as server:
        yield server, folder / "models"


@pytest.fixture(autouse=True)
def small_steps() -> Iterator[None]:
    """Files of a few rows have many positions."""
    with (
        mock.patch.object(text, "_BLOCK_BYTES", 24),
        mock.patch.object(parquet_files, "_MOST_ROWS", 3),
        mock.patch.object(ParquetFiles, "part_bytes", 400),
        mock.patch.object(TextColumnFiles, "part_bytes", 150),
    ):
        yield


@dataclass(frozen=True)
class Kind:
    """A format, whether it is packed, and where its files are."""

    format: str
    packing: str
    where: str
    is_split: bool = False
    """Whether texts have no line feeds, so that files of CSV are read in parts."""

    def __str__(self) -> str:
        return f"{self.format}{self.packing}-{'split-' * self.is_split}{self.where}"

    @property
    def can_grow(self) -> bool:
        return self.format != "parquet" and not self.packing and self.where == "disk"


KINDS = [
    Kind(name, packing, where)
    for where in ("disk", "s3")
    for name, packings in (("parquet", [""]), ("csv", ["", ".gz", ".zst"]), ("json", ["", ".gz"]))
    for packing in packings
] + [Kind("csv", "", where, True) for where in ("disk", "s3")]


class Files:
    """A folder of files of a kind, and their source."""

    def __init__(self, kind: Kind, folder: Path, url: str) -> None:
        self.kind, self.folder, self.url = kind, folder, url
        folder.mkdir(parents=True, exist_ok=True)

    def source(self, below: str = "*", **settings: Any) -> ColumnFiles:
        pattern = f"{self.url}/{below}.{self.kind.format}{self.kind.packing}"
        makers: Mapping[str, Callable[..., ColumnFiles]] = {
            "parquet": ParquetFiles,
            "csv": CsvFiles,
            "json": JsonFiles,
        }
        if self.kind.is_split:
            settings["newlines_in_values"] = False
        return makers[self.kind.format](pattern, SCHEMA, **settings)

    def path(self, name: str) -> Path:
        path = self.folder / f"{name}.{self.kind.format}{self.kind.packing}"
        path.parent.mkdir(exist_ok=True)
        return path

    def write(self, name: str, ids: range) -> list[int]:
        self.path(name).write_bytes(self.content(ids))
        return list(ids)

    def add(self, name: str, ids: range) -> list[int]:
        with self.path(name).open("ab") as file:
            file.write(self.content(ids, header=False))
        return list(ids)

    def content(self, ids: range, header: bool = True) -> bytes:
        end = "," if self.kind.is_split else "\n"
        rows = [{"id": number, "text": f'"{number}{end}{"x" * (number % 7)}"'} for number in ids]
        if self.kind.format == "json":
            data = "".join(json.dumps(row) + "\n" for row in rows).encode()
        else:
            table = pa.Table.from_pylist(rows, SCHEMA)
            stream = pa.BufferOutputStream()
            if self.kind.format == "csv":
                options = pa.csv.WriteOptions(include_header=header)
                pa.csv.write_csv(table, stream, options)
            else:
                pa.parquet.write_table(table, stream, row_group_size=5)
            data = stream.getvalue().to_pybytes()
        if self.kind.packing == ".gz":
            return gzip.compress(data[:20]) + gzip.compress(data[20:])
        if self.kind.packing == ".zst":
            packed: bytes = pa.compress(data, codec="zstd", asbytes=True)
            return packed
        return data


@pytest.fixture(params=KINDS, ids=str)
def files(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    kind: Kind = request.param
    if kind.where == "disk":
        return Files(kind, tmp_path / "files", str(tmp_path / "files"))
    server, bucket = request.getfixturevalue("server")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.endpoint)
    name = f"{tmp_path.parent.name}-{tmp_path.name}"
    return Files(kind, bucket / name, f"s3://models/{name}")


class Tasks:
    """The tasks of a job, which goes on from positions of partitions by their names."""

    def __init__(
        self, source: ColumnFiles, parallelism: int, positions: Mapping[str, Any] | None = None
    ) -> None:
        source.validate()
        self.source, self.parallelism = source, parallelism
        self.positions = dict(positions or {})
        contexts = [TaskContext("t", at, parallelism, 2, "job") for at in range(parallelism)]
        self.readers: list[Any] = [source.open(context) for context in contexts]
        self.found: list[Any] = []
        if positions is not None:
            for index, reader in enumerate(self.readers):
                reader.restore([name for name in positions if self.owner(name) == index])
        self.discover()

    def owner(self, name: str) -> int:
        return self.source.number(name) % self.parallelism

    def items(self, batch: Any) -> list[Any]:
        return list(batch["id"].to_pylist())

    def discover(self) -> None:
        for index, reader in enumerate(self.readers):
            for name in reader.partitions():
                if self.owner(name) == index:
                    self.positions.setdefault(name, None)

    def run(self, most: int = 1 << 30) -> int:
        """Poll at most so many times; how often was it."""
        count = 0
        for name, position in self.positions.items():
            if position == ENDED or count == most:
                continue
            partition = self.readers[self.owner(name)].open_partition(name, position)
            try:
                while count < most:
                    count += 1
                    batch = partition.poll(2)
                    if batch is None:
                        self.positions[name] = ENDED
                        break
                    self.found += [] if isinstance(batch, list) else self.items(batch)
                    self.positions[name] = partition.position
            finally:
                partition.close()
        return count


def test_a_job_goes_on_at_every_position(files: Files) -> None:
    """With as many tasks, and with others."""
    expected = files.write("1", range(23)) + files.write("2", range(23, 24))
    whole = Tasks(files.source(), 1)
    count = whole.run()
    assert whole.found == expected
    assert count >= 8
    for stop in range(count + 1):
        first = Tasks(files.source(), 1 + stop % 3)
        first.run(stop)
        second = Tasks(files.source(), 1 + stop % 4, first.positions)
        second.run(stop // 2)
        third = Tasks(files.source(), 2, second.positions)
        third.run()
        assert sorted(first.found + second.found + third.found) == expected


class Rows(Tasks):
    """Tasks that note whole rows, without texts."""

    def items(self, batch: Any) -> list[Any]:
        return [tuple(row.values()) for row in batch.drop_columns("text").to_pylist()]


@pytest.mark.parametrize("watch", [None, 1e-6])
def test_values_of_folders_come_out_wherever_a_job_stops(files: Files, watch: float | None) -> None:
    expected: list[Any] = []
    folders = {"city=%C3%A9%2F": "é/", "city=__HIVE_DEFAULT_PARTITION__": None, "city=": ""}
    for number, (folder, city) in enumerate(folders.items()):
        ids = files.write(f"{folder}/{number}", range(number * 10, number * 10 + 8))
        expected += [(each, city) for each in ids]

    def made() -> ColumnFiles:
        return files.source("**/*", watch=watch, partition_columns={"city": "string"})

    count = Rows(made(), 1).run()
    for stop in range(0, count + 1, 2):
        first = Rows(made(), 2)
        first.run(stop)
        second = Rows(made(), 1 + stop % 4, first.positions)
        second.run()
        assert sorted(first.found + second.found) == expected


@pytest.mark.parametrize("polls", [0, 3, 1 << 30])
def test_a_file_that_is_added_is_read(files: Files, polls: int) -> None:
    expected = files.write("2", range(12))
    first = Tasks(files.source(), 2)
    first.run(polls)
    expected += files.write("1", range(12, 20))
    second = Tasks(files.source(), 3, first.positions)
    second.run()
    assert sorted(first.found + second.found) == expected


@pytest.mark.parametrize("polls", [0, 2, 1 << 30])
def test_a_file_that_is_gone_is_named_where_rows_are_left(files: Files, polls: int) -> None:
    files.write("1", range(23))
    first = Tasks(files.source(), 1)
    first.run(polls)
    files.path("1").unlink()
    files.write("2", range(40, 43))
    second = Tasks(files.source(), 2, first.positions)
    if polls > 2:
        second.run()
        assert first.found + second.found == [*range(23), 40, 41, 42]
        return
    with pytest.raises(CheckpointError, match=r"1\.\S+ is gone or"):
        second.run()


@pytest.mark.parametrize("polls", [0, 2, 1 << 30])
@pytest.mark.parametrize("change", ["replaced", "cut", "longer"])
def test_a_file_that_was_changed_is_named(files: Files, polls: int, change: str) -> None:
    files.write("1", range(11, 34))
    first = Tasks(files.source(), 2)
    first.run(polls)
    content = files.content(range(11, 34))
    if change == "replaced":
        content = files.content(range(34, 57))
    elif change == "cut":
        content = files.content(range(11, 20))
    else:
        content = files.content(range(34, 99))
    files.path("1").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"1\.\w+"):
        Tasks(files.source(), 2, first.positions).run()


@pytest.mark.parametrize("polls", [0, 2, 1 << 30])
@pytest.mark.parametrize("watch", [None, 1e-6])
def test_rows_that_are_added_are_read_or_the_file_is_named(
    files: Files, polls: int, watch: float | None
) -> None:
    expected = files.write("1", range(23))
    first = Tasks(files.source(watch=watch), 2)
    first.run(polls)
    expected += files.add("1", range(23, 30))
    if not files.kind.can_grow:
        with pytest.raises(
            CheckpointError, match=r"1\.[a-z.]+ (has changed|is another|was replaced)"
        ):
            Tasks(files.source(watch=watch), 2, first.positions)
        return
    second = Tasks(files.source(watch=watch), 3, first.positions)
    second.run(polls // 2)
    expected += files.add("1", range(30, 33))
    third = Tasks(files.source(watch=watch), 1, second.positions)
    third.run()
    assert sorted(first.found + second.found + third.found) == expected


def test_new_files_are_found_while_a_job_runs(files: Files) -> None:
    expected = files.write("1", range(5))
    for name in (".2", "_3"):
        files.write(name, range(100, 105))
    files.path("4").touch()
    tasks = Tasks(files.source(watch=1e-6), 2)
    tasks.run()
    assert tasks.found == expected
    expected += files.write("2", range(5, 9))
    if files.kind.can_grow:
        expected += files.add("1", range(9, 12))
    tasks.discover()
    tasks.run()
    tasks.discover()
    tasks.run()
    assert sorted(tasks.found) == expected


@pytest.mark.parametrize(
    "files", [kind for kind in KINDS if kind.format == "parquet"], ids=str, indirect=True
)
def test_a_condition_on_rows(files: Files) -> None:
    """Also where a job stops between rows that are left out."""
    files.write("1", range(40))
    where = (pc.field("id") > 17) & (pc.bit_wise_and(pc.field("id"), 1) == 1)
    for stop in range(12):
        first = Tasks(files.source(where=where), 1)
        first.run(stop)
        second = Tasks(files.source(where=where), 2, first.positions)
        second.run()
        assert sorted(first.found + second.found) == list(range(19, 40, 2))


def test_a_file_that_changes_while_a_job_runs_is_named(files: Files) -> None:
    files.write("1", range(23))
    tasks = Tasks(files.source(), 1)
    files.write("1", range(50, 73))
    with pytest.raises((OSError, StorageError), match=r"1\.\w+"):
        tasks.run()


@pytest.mark.parametrize("name", ["parquet", "csv"])
@pytest.mark.parametrize("has_times", [False, True])
@pytest.mark.parametrize("after", [1, 3])
def test_a_job_goes_on_with_other_tasks(
    tmp_path: Path, name: str, has_times: bool, after: int
) -> None:
    """From checkpoints, with files and rows that came meanwhile."""
    files = Files(Kind(name, "", "disk"), tmp_path / "files", str(tmp_path / "files"))
    expected = [number for at in range(3) for number in files.write(f"{at}", range(at, 90, 3))]

    def pipeline() -> Any:
        stream: Any = source(files.source())
        if has_times:
            stream = stream.with_event_time("id")
        return stream.map_batches(braked).to_records().sink(Collect())

    settings: dict[str, Any] = {"folder": tmp_path, "batch_size": 2}
    assert rescaling.run(pipeline, 2, 30, **settings) is None
    expected += files.write("3", range(100, 110))
    if files.kind.can_grow:
        expected += files.add("1", range(110, 115))
    assert rescaling.run(pipeline, after, 20, **settings) is None
    expected += files.write("4", range(115, 120))
    outputs = rescaling.run(pipeline, 2, **settings)
    assert outputs is not None
    assert sorted(row["id"] for row in outputs["collect"]) == sorted(expected)


def braked(batch: Any) -> Any:
    rescaling.braked(batch)
    return batch


SEEN: list[int] = []


def test_a_job_that_watches_reads_what_comes(tmp_path: Path) -> None:
    files = Files(Kind("csv", "", "disk"), tmp_path / "files", str(tmp_path / "files"))
    files.write("1", range(5))
    SEEN.clear()
    stream: Any = source(files.source(watch=0.05)).map_batches(noted)
    handle = JobHandle(
        Plan.of(stream.sink(Discard()), JobConfig(name="watch", progress="none", parallelism=2)),
        ThreadLauncher(),
    )
    try:
        wait_until(lambda: len(SEEN) >= 5)
        files.write("2", range(5, 9))
        files.add("1", range(9, 12))
        wait_until(lambda: len(SEEN) >= 12)
        assert sorted(SEEN) == list(range(12))
    finally:
        handle.cancel()
        handle.wait_stopped()


def noted(batch: Any) -> Any:
    SEEN.extend(batch["id"].to_pylist())
    return batch


@pytest.mark.parametrize(
    "files",
    [kind for kind in KINDS if kind.where == "disk" and not kind.packing],
    ids=str,
    indirect=True,
)
def test_the_sources_keep_the_promises_of_sources_of_partitions(files: Files) -> None:
    files.write("1", range(40))
    files.write("2", range(40, 80))
    check_source(files.source(), batch_size=2)
