"""File sinks that write to S3: the same files as in a folder, whole and once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.errors import CheckpointError, GraphError, OperatorError, StorageError
from engine.graph.context import TaskContext
from engine.programs.s3_server import S3Server
from engine.s3 import S3
from engine.testing import run
from operators import source
from operators.sinks import CsvSink, JsonLines, LineFiles, ParquetSink
from operators.sources import Collection
from tests.conftest import S3_CREDENTIALS
from tests.halves import Halves, run_half, run_rest

KEYS = {
    "access_key": S3_CREDENTIALS["AWS_ACCESS_KEY_ID"],
    "secret_key": S3_CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
}
Files = dict[str, bytes]


class Bucket:
    """A bucket `out` of a server of our own, seen from behind."""

    def __init__(self, root: Path, server: S3Server) -> None:
        self.root = root
        self.server = server

    def files(self, prefix: str = "run") -> Files:
        """What is there, also what is not final."""
        folder = self.root / "out" / prefix
        return {each.name: each.read_bytes() for each in folder.glob("*") if each.is_file()}

    @property
    def uploads(self) -> list[str]:
        """Uploads that were begun and neither completed nor aborted."""
        return [each.name for each in (self.root / ".oka-s3" / "uploads").iterdir()]


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    root = tmp_path / "s3"
    (root / "out").mkdir(parents=True)
    with S3Server(root, **KEYS) as server:
        for name, value in {**S3_CREDENTIALS, "AWS_ENDPOINT_URL": server.endpoint}.items():
            monkeypatch.setenv(name, value)
        yield Bucket(root, server)


def task(index: int = 0, parallelism: int = 1, **settings: Any) -> TaskContext:
    made = TaskContext("files[0]", index, parallelism, 100, "test")
    return replace(made, **{"checkpoints": True, "generation": 1, **settings})


def in_folder(folder: Path) -> Files:
    return {each.name: each.read_bytes() for each in folder.iterdir()}


def unordered(files: Files) -> dict[str, list[bytes]]:
    """The lines of each file: those of several senders come in any order."""
    return {name: sorted(text.splitlines()) for name, text in files.items()}


def job(sink: Any, records: int = 20) -> Any:
    return (
        source(Collection(range(records))).rebalance().map(lambda n: {"n": n, "é": None}).sink(sink)
    )


@pytest.mark.parametrize("kind", [JsonLines, LineFiles])
@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize("records", [0, 20])
def test_files_are_those_of_a_folder(
    kind: type[JsonLines | LineFiles],
    checkpoints: bool,
    records: int,
    bucket: Bucket,
    tmp_path: Path,
) -> None:
    for parallelism in (1,) if checkpoints else (3, 1):  # the second run has fewer files
        for name, where in (("folder", tmp_path / "run"), ("s3", "s3://out/run/")):
            kept = {"checkpoints": str(tmp_path / name)} if checkpoints else {}
            run(job(kind(where), records), parallelism=parallelism, **kept)
        assert unordered(bucket.files()) == unordered(in_folder(tmp_path / "run"))
    assert bucket.uploads == []


def test_a_file_of_several_parts(bucket: Bucket) -> None:
    long = "é" * (1 << 20)
    run(source(Collection([long] * 11)).sink(LineFiles("s3://out/run")))
    assert bucket.files() == {"part-00000.txt": f"{long}\n".encode() * 11}


def test_a_job_that_fails_leaves_nothing(bucket: Bucket) -> None:
    def fail(n: int) -> int:
        return 1 // (19 - n)

    numbers = source(Collection(range(20))).map(fail)
    with pytest.raises(OperatorError, match="ZeroDivisionError"):
        run(numbers.sink(JsonLines("s3://out/run")), batch_size=2, parallelism=2)
    assert bucket.files() == {}
    assert bucket.uploads == []


PLACES = {"s3": "s3://out/then", "other s3": "s3://out/now", "folder": "folder"}


@pytest.mark.parametrize("then", PLACES)
@pytest.mark.parametrize("now", PLACES)
def test_a_job_goes_on_here_or_elsewhere(
    then: str, now: str, bucket: Bucket, tmp_path: Path
) -> None:
    numbers = Halves(range(100), 37)

    def made(name: str) -> Any:
        where = PLACES[name] if "s3" in name else tmp_path / name
        return source(numbers).rebalance().map(abs).sink(LineFiles(where))

    def found(name: str) -> list[int]:
        folder = bucket.root / "out" / PLACES[name].split("/")[-1]
        folder = folder if "s3" in name else tmp_path / name
        assert all(path.name.startswith("part-") for path in folder.iterdir())
        return [int(line) for path in folder.iterdir() for line in path.read_text().split()]

    run_half(made(then), tmp_path / "checkpoints", numbers, parallelism=2)
    run_rest(made(now), tmp_path / "checkpoints", parallelism=3)
    assert sorted(n for name in {then, now} for n in found(name)) == list(range(100))
    assert bucket.uploads == []


@pytest.mark.parametrize("kind", [ParquetSink, CsvSink])
def test_storage_that_fails_while_a_file_is_full(
    kind: Any, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = kind("s3://out/run", ["n"], max_bytes=1)
    sink.validate()
    writer = sink.open(task())
    begin, fails = S3.begin_upload, True

    def begin_upload(self: S3, key: str) -> str:
        if fails:
            raise StorageError("away", code="Unreachable")
        return begin(self, key)

    monkeypatch.setattr(S3, "begin_upload", begin_upload)
    writer.write([(1,)])
    writer.write([(2,)])  # in a second file, which is not uploaded either
    with pytest.raises(StorageError):
        writer.prepare(1)
    assert list(bucket.files()) == [name for name in bucket.files() if name.endswith(".claim")]
    writer.write([(3,)])
    fails = False
    writer.write([(4,)])
    assert len(bucket.uploads) == 4  # before the barrier
    prepared = writer.prepare(2)
    writer.commit(2, prepared)
    writer.commit(2, prepared)  # as after a failure
    writer.write([(5,)])
    assert len(bucket.uploads) == 1
    writer.abort()
    writer.close()
    assert bucket.uploads == []
    assert len(bucket.files()) == 4
    assert all(name.startswith("part-") for name in bucket.files())


@pytest.mark.parametrize("kind", [ParquetSink, CsvSink])
def test_uploads_of_a_killed_task_are_aborted_by_the_next(kind: Any, bucket: Bucket) -> None:
    settings = {"max_bytes": 1, "partition_by": "a"}
    first, second = (kind("s3://out/run", **settings) for _ in range(2))
    for sink in (first, second):
        sink.validate()
    killed = first.open(task())
    killed.write([{"a": 1, "n": 1}])
    kept = killed.prepare(1)
    killed.write([{"a": a, "n": 2} for a in range(3)])
    assert len(bucket.uploads) == 4
    writer = second.open(task(generation=2))
    writer.restore(1, [(1, kept)])
    assert bucket.uploads == []
    writer.write([{"a": None, "n": 2}])
    writer.commit(2, writer.prepare(2))
    writer.close()
    found = [path.relative_to(bucket.root).as_posix() for path in bucket.root.rglob("part-*")]
    end = sink.layout.kind
    assert sorted(found) == [
        f"out/run/a=1/part-00000-00000001{end}",
        f"out/run/a=__HIVE_DEFAULT_PARTITION__/part-00000-00000002{end}",
    ]


def test_a_driver_that_was_replaced_leaves_alone_what_is_of_the_next(bucket: Bucket) -> None:
    sinks = [LineFiles("s3://out/run") for _ in range(2)]
    for sink in sinks:
        sink.validate()
    first = sinks[0].open(task())
    first.write(["a"])
    kept = first.prepare(1)
    first.write(["dropped"])
    first.prepare(2)
    second = sinks[1].open(task(generation=2))
    second.restore(1, [(1, kept)])
    assert len(bucket.uploads) == 0
    second.write(["b"])
    stored = second.prepare(2)
    before = bucket.files()
    with pytest.raises(CheckpointError, match="another job has begun to write"):
        sinks[0].open(task())  # the first driver does not know of the second
    assert bucket.files() == before
    second.commit(2, stored)
    second.close()
    assert sorted(bucket.files().values()) == [b"a\n", b"b\n"]


def test_a_completion_whose_answer_was_lost_is_one(bucket: Bucket) -> None:
    sink = LineFiles("s3://out/run")
    sink.validate()
    for context in (task(), replace(task(), checkpoints=False)):
        writer = sink.open(context)
        writer.write(["a"])
        [(name, _, _, token)] = prepared = writer.prepare(1)
        assert sink.place.finish("", name, token)
        writer.commit(1, prepared)
        writer.abort()
    assert sorted(bucket.files()) == ["part-00000.txt"]  # as the second removes the first's


@pytest.mark.parametrize("checkpoints", [False, True])
def test_an_upload_that_somebody_aborted_is_told(checkpoints: bool, bucket: Bucket) -> None:
    sink = LineFiles("s3://out/run")
    sink.validate()
    writer = sink.open(replace(task(), checkpoints=checkpoints, identity="lines"))
    writer.write(["a"])
    prepared = writer.prepare(1)
    S3.open("s3://out/run").abort_upload(prepared[0][0], bucket.uploads[0])
    with pytest.raises((CheckpointError, FileNotFoundError), match="s3://out/run"):
        writer.commit(1, prepared)


def test_what_killed_tasks_left_is_removed_by_the_driver(bucket: Bucket) -> None:
    sink = JsonLines("s3://out/run")
    sink.validate()
    run(source(Collection([1])).sink(JsonLines("s3://out/run")))
    for index in range(2):
        writer = sink.open(replace(task(index, 2), checkpoints=False))
        writer.write([index])
        writer.prepare(1)
    assert len(bucket.uploads) == 2
    sink.abort()
    assert bucket.uploads == []
    assert bucket.files() == {"part-00000.jsonl": b"1\n"}


def test_output_of_another_job_is_refused_with_checkpoints(bucket: Bucket, tmp_path: Path) -> None:
    run(job(JsonLines("s3://out/run")))
    with pytest.raises(CheckpointError, match=r"s3://out/run/part-00000\.jsonl is of another job"):
        run(job(JsonLines("s3://out/run")), checkpoints=str(tmp_path / "kept"))


def test_errors_name_bucket_and_key(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OperatorError, match=r"'json_lines' .*s3://none.*NoSuchBucket") as caught:
        run(job(JsonLines("s3://none/run")))
    assert "hint: create the bucket first" in str(caught.value)
    sink = JsonLines("s3://out/run")
    writer = sink.open(replace(task(), checkpoints=True))
    writer.write([1])
    bucket.server.close()
    monkeypatch.setattr(S3, "open", lambda url: None)
    with pytest.raises(Exception, match=r"s3://out/run/\.part-00000\.jsonl.* at http"):
        writer.prepare(1)
    with pytest.raises(StorageError, match="s3://out/run"):
        writer.abort()


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("s3://", r"the URL is 's3://', expected s3://bucket/prefix"),
        (Path("s3://out/run"), "a Path has one slash"),
        ("gs://out/run", "expected a folder or s3://bucket/prefix"),
        ("", "expected a folder or s3://bucket/prefix"),
    ],
)
def test_what_is_no_place_is_refused(where: Any, told: str) -> None:
    with pytest.raises(GraphError, match=told):
        JsonLines(where)


def test_two_sinks_of_one_prefix_are_refused(bucket: Bucket) -> None:
    numbers = source(Collection([1, 2]))
    with pytest.raises(GraphError, match="both write part-"):
        run([numbers.sink(LineFiles("s3://out/a")), numbers.sink(LineFiles("s3://out/a/"))])
    run([numbers.sink(LineFiles("s3://out/a")), numbers.sink(JsonLines("s3://out/a"))])
    assert sorted(bucket.files("a")) == ["part-00000.jsonl", "part-00000.txt"]
