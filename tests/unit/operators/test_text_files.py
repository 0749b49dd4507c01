"""TextFiles by hand; tests/property/test_text_files.py divides any text."""

import gzip
import itertools
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.errors import GraphError
from engine.graph import TaskContext
from operators.sources import TextFiles, text_files

Task = Callable[..., TaskContext]


def lines(source: TextFiles, task: Task, parallelism: int = 1, batch_size: int = 100) -> list[str]:
    batches = [
        batch
        for index in range(parallelism)
        for batch in source.open(task(index, parallelism, batch_size))
    ]
    assert all(0 < len(batch) <= batch_size for batch in batches)
    return list(itertools.chain(*batches))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_bytes(b"one\ntwo\r\nthree\rfour\n\nsix")
    (tmp_path / "b.txt").write_bytes(b"seven\n")
    with gzip.open(tmp_path / "c.txt.gz", "wb") as packed:
        packed.write("acht\nneun €\n".encode())
    (tmp_path / "empty.txt").touch()
    return tmp_path


@pytest.mark.parametrize("parallelism", [1, 2, 3, 50])
@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_a_glob_in_parallel(folder: Path, task: Task, parallelism: int, batch_size: int) -> None:
    source = TextFiles(folder / "*.txt*")
    assert lines(source, task, parallelism, batch_size) == [
        "one",
        "two",
        "three",
        "four",
        "",
        "six",
        "seven",
        "acht",
        "neun €",
    ]


def test_one_path_several_paths_and_each_file_once(folder: Path, task: Task) -> None:
    assert lines(TextFiles(str(folder / "b.txt")), task) == ["seven"]
    paths = [folder / "b.txt", folder / "b.*", folder / "c.txt.gz"]
    assert lines(TextFiles(paths), task) == ["seven", "acht", "neun €"]


def test_an_empty_file_has_no_lines(folder: Path, task: Task) -> None:
    assert lines(TextFiles(folder / "empty.txt"), task, parallelism=2) == []


def test_a_name_with_the_characters_of_a_pattern(tmp_path: Path, task: Task) -> None:
    (tmp_path / "a[1].txt").write_text("x")
    assert lines(TextFiles(tmp_path / "a[1].txt"), task) == ["x"]


def test_lines_longer_than_a_block(
    tmp_path: Path, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_files, "_BLOCK_BYTES", 4)
    monkeypatch.setattr("operators.sources.lines._SEARCH_BYTES", 3)
    expected = ["x" * 50, "", "y" * 3, "ü" * 20]
    (tmp_path / "a.txt").write_bytes("\r\n".join(expected).encode())
    for parallelism in (1, 2, 7):
        assert lines(TextFiles(tmp_path / "a.txt"), task, parallelism) == expected


def test_files_are_settled_when_the_job_is_planned(folder: Path, task: Task) -> None:
    source = TextFiles(folder / "b*.txt")
    source.validate()
    with (folder / "b.txt").open("a") as file:
        file.write("later\n")
    (folder / "b2.txt").write_text("later")
    assert lines(pickle.loads(pickle.dumps(source)), task) == ["seven"]


def test_a_relative_path_holds_in_another_working_directory(
    folder: Path, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    source = TextFiles("b.txt")
    source.validate()
    monkeypatch.chdir("/")
    assert lines(source, task) == ["seven"]


def test_missing_files(folder: Path) -> None:
    with pytest.raises(GraphError, match=r"(?s)file does not exist: '.*nothing.txt'.*hint: rel"):
        TextFiles(folder / "nothing.txt").validate()
    with pytest.raises(GraphError, match=r"pattern matches no file: '.*\*.csv'"):
        TextFiles([folder / "a.txt", folder / "*.csv"]).validate()
    with pytest.raises(GraphError, match="is not a file, expected text files"):
        TextFiles(folder).validate()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(folder: Path) -> None:
    (folder / "a.txt").chmod(0)
    with pytest.raises(GraphError, match="may not be read"):
        TextFiles(folder / "a.txt").validate()


def test_building_looks_at_no_file() -> None:
    TextFiles("/nowhere/*.txt")


def test_encodings(tmp_path: Path, task: Task) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("é\nö\n".encode("latin-1"))
    assert lines(TextFiles(path, encoding="latin-1"), task) == ["é", "ö"]
    assert lines(TextFiles(path, errors="replace"), task) == ["�", "�"]
    assert lines(TextFiles(path, errors="ignore"), task) == ["", ""]
    with pytest.raises(UnicodeDecodeError, match=r"in .*a.txt \(errors='replace' reads on\)"):
        lines(TextFiles(path), task)


def test_lines_of_a_zstandard_file(tmp_path: Path, task: Task) -> None:
    path = tmp_path / "a.zst"
    path.write_bytes(pa.compress(b"hello\r\nyou\n" * 100, codec="zstd", asbytes=True))
    assert lines(TextFiles(path), task) == ["hello", "you"] * 100
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(OSError, match=r"a.zst is not a whole Zstandard file"):
        lines(TextFiles(path), task)


def test_a_cut_gzip_file_is_named(tmp_path: Path, task: Task) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"hello\n" * 100)[:-10])
    with pytest.raises(OSError, match=r"a.gz is not a whole gzip file"):
        lines(TextFiles(path), task)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"paths": []}, "TextFiles got no path"),
        ({"encoding": "utf-16"}, "encoding is 'utf-16', expected one that has ASCII"),
        ({"encoding": "klingon"}, "unknown encoding: klingon"),
        ({"errors": "hide"}, "unknown error handler name 'hide'"),
        ({"rate": -5}, "rate is -5"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        TextFiles(**({"paths": "a.txt"} | settings))
