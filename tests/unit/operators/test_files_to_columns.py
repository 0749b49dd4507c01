"""What files of columns may look like, and what is said of those that are wrong."""

from __future__ import annotations

import glob
import gzip
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from engine.errors import GraphError, OperatorError
from engine.graph.context import TaskContext
from engine.network import DecodeError
from engine.testing import run
from operators import source
from operators.sinks import Collect
from operators.sources import CsvFiles, JsonFiles, ParquetFiles, TextFiles
from operators.sources.files.source import ColumnFiles
from operators.sources.files.stores import store_of
from operators.sources.files.text import TextColumnFiles
from operators.sources.patterns import divided, expression, matching

IDS = pa.schema([("id", pa.int64())])


def read(files: ColumnFiles) -> list[Any]:
    """The batches of one task."""
    files.validate()
    reader = files.open(TaskContext("t", 0, 1, 1000, "job"))
    found = []
    for name in reader.partitions():
        partition = reader.open_partition(name, None)
        while (batch := partition.poll(1000)) is not None:
            found += [] if isinstance(batch, list) else [batch]
        partition.close()
    assert all(batch.schema == files.schema for batch in found)
    return found


def rows(files: ColumnFiles) -> list[dict[str, Any]]:
    return [row for batch in read(files) for row in batch.to_pylist()]


def write(path: Path, **columns: Any) -> None:
    pq.write_table(pa.table(columns), path)


# CSV


@pytest.mark.parametrize(
    ("content", "settings", "expected"),
    [
        ("a,b\n1,x\n", {}, [{"a": 1, "b": "x"}]),
        ("\n\na,b\n\n1,x\n\n", {}, [{"a": 1, "b": "x"}]),
        ("\ufeffa,b\r\n1,x", {}, [{"a": 1, "b": "x"}]),
        ("a,b\r1,x\r2,y", {}, [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]),
        ('a,"b ""\n"\n1,"x\n,"\n', {}, [{"a": 1, 'b "\n': "x\n,"}]),
        ("a;b\n1;x,y\n", {"delimiter": ";"}, [{"a": 1, "b": "x,y"}]),
        ("a\tb\n1\t'x\t'\n", {"delimiter": "\t", "quote": "'"}, [{"a": 1, "b": "x\t"}]),
        ('a,b\n1,x"\n', {"quote": None}, [{"a": 1, "b": 'x"'}]),
        ("1,x\n2,y\n", {"header": False}, [{"f0": 1, "f1": "x"}, {"f0": 2, "f1": "y"}]),
        ("1\n", {"header": False, "schema": IDS}, [{"id": 1}]),
        ("a,b,c\n1,x,2\n", {"columns": ["c", "a"]}, [{"c": 2, "a": 1}]),
        ("a,id\nx,5\n", {"schema": IDS}, [{"id": 5}]),
        ("a,id\nx,5\n", {"schema": {"id": "string"}}, [{"id": "5"}]),
        ("a,b\n,\n", {}, [{"a": None, "b": None}]),
        ('a,b\n,""\nNA,5\n', {}, [{"a": None, "b": ""}, {"a": "NA", "b": "5"}]),
        ('a,b\nx,""\nNA,5\n', {"nulls": ["NA"]}, [{"a": "x", "b": ""}, {"a": None, "b": "5"}]),
        ("id\n", {"schema": IDS}, []),
        ("\n\n", {"schema": IDS}, []),
        ("a,b\n1.5,2020-01-01\n", {}, None),
    ],
)
def test_csv_of_many_kinds(
    tmp_path: Path, content: str, settings: dict[str, Any], expected: Any
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content.encode())
    found = rows(CsvFiles(path, **settings))
    if expected is not None:
        assert found == expected
    else:
        assert [str(kind) for kind in read(CsvFiles(path))[0].schema.types] == [
            "double",
            "date32[day]",
        ]


def test_a_csv_of_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("größe\nzwölf\n".encode("latin-1"))
    assert rows(CsvFiles(path, encoding="latin-1")) == [{"größe": "zwölf"}]
    with pytest.raises(DecodeError, match=r"a\.csv: its first row cannot be read"):
        rows(CsvFiles(path))
    with pytest.raises(GraphError, match="encoding is 'utf-16'"):
        CsvFiles(path, encoding="utf-16")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,t\n1,a\n2,b\nx,c\n", r"a\.csv, line 4: column 'id': .*invalid value 'x': 'x,c'"),
        ('id,t\n1,"a\nb"\n\nx,c\n', r"a\.csv, line 5: column 'id'"),
        ("id,t\n1,a\n2\n", r"a\.csv, line 3: Expected 2 columns, got 1"),
        ("id,t\n1,a\n2,b,c\n", r"a\.csv, line 3: Expected 2 columns, got 3"),
        ('id,t\n1,a\n2,"b\n3,c\n', r"a\.csv, line 3: the row has no end: '2,"),
        ("id,t\n1,a\n2,\udcff\n", r"a\.csv, line 3: column 't': .*UTF8"),
    ],
)
def test_a_wrong_row_is_named_by_its_line(tmp_path: Path, content: str, message: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("t", pa.string())])
    data = content.encode(errors="surrogateescape")
    (tmp_path / "a.csv").write_bytes(data)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(data))
    for name in ("a.csv", "a.csv.gz"):
        with pytest.raises(DecodeError, match=message.replace("csv", name[2:])):
            read(CsvFiles(tmp_path / name, schema))


@pytest.mark.parametrize(
    ("first", "second", "settings", "message"),
    [
        ("a,b\n1,2\n", "a\n1\n", {}, r"2\.csv has no column 'b': it has 'a'"),
        ("a\n1\n", "a,b\n1,2\n", {}, r"2\.csv has a column 'b', which the first file has not"),
        ("a\n1\n", "a,b\n1,2\n", {"columns": ["a"]}, None),
        ("a,b\n1,2\n", "b,a\n2,1\n", {}, None),
        ("a,a\n1,2\n", "", {}, r"1\.csv has several columns 'a'"),
        ("a\n1\n", "a\n1.5\n", {}, r"2\.csv, line 2: column 'a'"),
    ],
)
def test_files_whose_headers_differ(
    tmp_path: Path, first: str, second: str, settings: dict[str, Any], message: str | None
) -> None:
    (tmp_path / "1.csv").write_text(first)
    (tmp_path / "2.csv").write_text(second)
    files = CsvFiles(tmp_path, **settings)
    if message is None:
        first_row, second_row = rows(files)
        assert first_row == second_row
    else:
        with pytest.raises((GraphError, DecodeError), match=message):
            read(files)


@pytest.mark.table(3)
@pytest.mark.parametrize("part_bytes", [1, 2, 3, 7, 10, 64, 1000])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("kind", ["csv", "csv without a header", "json"])
def test_each_row_is_in_one_part(
    tmp_path: Path, kind: str, last: bool, end: str, part_bytes: int, monkeypatch: Any
) -> None:
    """Wherever the file is cut: before, in and behind line ends, headers and empty lines."""
    monkeypatch.setattr(TextColumnFiles, "part_bytes", part_bytes)
    if kind == "json":
        lines = [f'{{"id": {number}, "t": "{"x" * (number % 9)}"}}' for number in range(30)]
        end = "\n" if end == "\r" else end
    else:
        lines = [f'{number},"{"x" * (number % 9)}"' for number in range(30)]
        lines[:0] = ["\ufeffid,t"] if kind == "csv" else []
    lines[5:5] = ["", ""]
    (tmp_path / "a").write_bytes((end.join(lines) + end * last).encode())
    schema = {"id": "int64", "t": "string"}
    settings: dict[str, Any] = {"newlines_in_values": False, "header": kind == "csv"}
    files = (
        JsonFiles(tmp_path, schema) if kind == "json" else CsvFiles(tmp_path, schema, **settings)
    )
    files.validate()
    count = len(list(files.open(None).partitions()))  # type: ignore[arg-type]
    assert count == -(-(tmp_path / "a").stat().st_size // part_bytes)
    assert rows(files) == [{"id": number, "t": "x" * (number % 9)} for number in range(30)]


@pytest.mark.parametrize("part_bytes", [1, 12, 14, 17, 1000])
def test_a_line_feed_in_quotes_is_named_where_there_is_none(
    tmp_path: Path, part_bytes: int, monkeypatch: Any
) -> None:
    monkeypatch.setattr(TextColumnFiles, "part_bytes", part_bytes)
    (tmp_path / "a.csv").write_text('id,t\n1,"x"\n2,"y\n3,z"\n4,v\n')
    with pytest.raises(DecodeError, match=r"a\.csv, line 3: .*(newlines_in_values|no end)"):
        read(CsvFiles(tmp_path / "a.csv", newlines_in_values=False))
    assert len(rows(CsvFiles(tmp_path / "a.csv"))) == 3


def test_a_broken_packed_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"id\n" + b"1\n" * 100_000)[:-9])
    with pytest.raises(OSError, match=r"a\.csv\.gz cannot be unpacked: Truncated"):
        read(CsvFiles(path, IDS))


# JSON


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"id": 1}\n{"id": "x"}\n', "line 2: .*string"),
        ('{"id": 1}\n\n[2]\n', "line 3"),
        ("null\n", "line 1: expected an object"),
        ('{"id": 1}\n{"id": 2\n', "line 2"),
        ('{"id": 1.5}\n', "line 1: .*int64"),
        ('{"id": 1}\nnonsense\n', "line 2"),
    ],
)
def test_a_wrong_object_is_named_by_its_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.jsonl").write_text(content)
    with pytest.raises(DecodeError, match=r"a\.jsonl, " + message):
        read(JsonFiles(tmp_path / "a.jsonl", IDS))


def test_fields_of_json(tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_text('{"id": 1, "in": {"x": [1]}, "no": null}\n')
    (tmp_path / "2.jsonl").write_text('{"no": "x"}\n\n{"in": {"x": []}, "id": 2}')
    assert rows(JsonFiles(tmp_path)) == [
        {"id": 1, "in": {"x": [1]}, "no": None},
        {"id": None, "in": None, "no": "x"},
        {"id": 2, "in": {"x": []}, "no": None},
    ]
    assert rows(JsonFiles(tmp_path, columns=["id"])) == [{"id": 1}, {"id": None}, {"id": 2}]
    (tmp_path / "3.jsonl").write_text('{"id": 3}\n{"new": 1}\n')
    with pytest.raises(DecodeError, match=r"3\.jsonl, line 2: .*unexpected field"):
        rows(JsonFiles(tmp_path))
    assert [row["id"] for row in rows(JsonFiles(tmp_path, IDS))] == [1, None, 2, 3, None]


# Parquet


@pytest.mark.parametrize(
    ("first", "second", "settings", "message"),
    [
        ({"a": [1], "b": ["x"]}, {"b": ["x"], "a": [1]}, {}, None),
        ({"a": [1]}, {"a": pa.array([1], pa.int32())}, {}, None),
        ({"a": [1.0]}, {"a": pa.array([1], pa.float32())}, {}, None),
        (
            {"a": pa.array([1], pa.int32())},
            {"a": [1]},
            {},
            "2.parquet: column 'a' is int64, expected int32",
        ),
        ({"a": [1]}, {"a": ["x"]}, {}, "2.parquet: column 'a' is string, expected int64"),
        ({"a": [1], "b": [1]}, {"a": [1]}, {}, "2.parquet has no column 'b'"),
        ({"a": [1], "b": [1]}, {"a": [1]}, {"columns": ["a"]}, None),
        ({"a": [1]}, {"a": [1], "b": [1]}, {}, "2.parquet has a column 'b'"),
        ({"a": [1]}, {"a": [1], "b": [1]}, {"schema": pa.schema([("a", pa.int64())])}, None),
        ({"a": [1]}, {"a": [1]}, {"columns": ["z"]}, "there is no column 'z', expected one of a"),
        ({"a": [1]}, {"a": [1]}, {"columns": []}, "columns has no name"),
        ({"a": [1]}, {"a": [1]}, {"columns": "a"}, "columns is 'a', expected a list"),
    ],
)
def test_parquet_files_whose_schemas_differ(
    tmp_path: Path, first: Any, second: Any, settings: dict[str, Any], message: str | None
) -> None:
    write(tmp_path / "1.parquet", **first)
    write(tmp_path / "2.parquet", **second)
    if message is None:
        first_row, second_row = rows(ParquetFiles(tmp_path, **settings))
        assert first_row == second_row
    else:
        with pytest.raises(GraphError, match=message):
            read(ParquetFiles(tmp_path, **settings))


def test_a_column_that_a_parquet_file_lacks_is_null_where_the_schema_says_so(
    tmp_path: Path,
) -> None:
    write(tmp_path / "1.parquet", a=[1])
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    assert rows(ParquetFiles(tmp_path, schema)) == [{"a": 1, "b": None}]
    coded = {"a": "int64", "b": pa.dictionary(pa.int32(), pa.string())}
    assert rows(ParquetFiles(tmp_path, coded)) == [{"a": 1, "b": None}]
    required = pa.schema([("a", pa.int64()), pa.field("b", pa.string(), nullable=False)])
    with pytest.raises(GraphError, match=r"1\.parquet has no column 'b'"):
        rows(ParquetFiles(tmp_path, required))


def test_values_of_all_kinds_come_through_parquet(tmp_path: Path) -> None:
    table = pa.table(
        {
            "dictionary": pa.array(["x", "y", "x"]).dictionary_encode(),
            "list": [[1], None, []],
            "struct": [{"a": 1, "b": ["x"]}, None, {"a": None, "b": []}],
            "map": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
            "huge": ["x" * 5_000_000, "", None],
            "none": pa.nulls(3),
            "at": pa.array([0, 1, None], pa.timestamp("us", "Europe/Zurich")),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    found = pa.Table.from_batches(read(ParquetFiles(tmp_path / "a.parquet")))
    assert found.schema == table.schema.remove_metadata()
    assert found.to_pylist() == table.to_pylist()


def test_texts_are_read_as_a_dictionary_where_the_schema_says_so(tmp_path: Path) -> None:
    values = ["x", None, "y"] * 10
    write(tmp_path / "1.parquet", text=values)
    write(tmp_path / "2.parquet", text=pa.array(values).dictionary_encode())
    schema = pa.schema([("text", pa.dictionary(pa.int32(), pa.string()))])
    assert [row["text"] for row in rows(ParquetFiles(tmp_path, schema))] == values * 2


def test_a_thousand_columns(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", **{f"c{number}": [number] * 3 for number in range(1000)})
    (batch,) = read(ParquetFiles(tmp_path / "a.parquet"))
    assert batch.num_columns == 1000
    condition = pc.field("c7") == 7
    (batch,) = read(ParquetFiles(tmp_path / "a.parquet", columns=["c999"], where=condition))
    assert batch.to_pydict() == {"c999": [999] * 3}


def test_a_condition_leaves_out_rows_and_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    values: list[int | None] = [*range(99), None]  # the last group may always have a null
    pq.write_table(pa.table({"a": values, "b": list(range(100))}), path, row_group_size=10)
    files = ParquetFiles(path, columns=["b"], where=(pc.field("a") > 34) & (pc.field("a") < 52))
    files.validate()
    assert files.read == ["b", "a"]
    reader = files.open(TaskContext("t", 0, 1, 1000, "job"))
    (name,) = reader.partitions()
    partition: Any = reader.open_partition(name, None)
    assert partition._left == [3, 4, 5, 9]
    partition.close()
    assert [row["b"] for row in rows(files)] == list(range(35, 52))
    assert rows(ParquetFiles(path, where=pc.field("a") > 1000)) == []
    assert [row["b"] for row in rows(ParquetFiles(path, where=pc.field("a").is_null()))] == [99]
    for wrong in (pc.field("nope") > 1, pc.field("a") > "x", pc.field("a")):
        with pytest.raises(GraphError, match="where is"):
            read(ParquetFiles(path, where=wrong))


def test_parquet_files_without_rows(tmp_path: Path) -> None:
    write(tmp_path / "1.parquet", id=pa.array([], pa.int64()))
    with pq.ParquetWriter(tmp_path / "2.parquet", IDS):
        pass
    assert rows(ParquetFiles(tmp_path)) == []
    assert rows(ParquetFiles(tmp_path, where=pc.field("id") > 1)) == []


@pytest.mark.parametrize("content", [b"PAR1", b"nonsense" * 100, b"PAR1" + b"x" * 100 + b"PAR1"])
def test_what_is_not_parquet_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(OSError, match=r"a\.parquet: its footer cannot be read"):
        read(ParquetFiles(tmp_path, IDS))


def test_a_broken_page_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": list(range(10_000))}), path, write_page_checksum=True)
    content = bytearray(path.read_bytes())
    content[100:2000] = b"x" * 1900
    path.write_bytes(content)
    with pytest.raises(OSError, match=r"a\.parquet: row group 0 cannot be read"):
        read(ParquetFiles(path))


# Which files


def test_folders_patterns_and_names(tmp_path: Path) -> None:
    for name in (
        "a.csv",
        "b[1].csv",
        "deep/er/c.csv",
        "_SUCCESS",
        ".hid",
        "_tmp/d.csv",
        "e.csv.tmp",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"id\n{len(name)}\n")

    def ids(*patterns: str) -> list[int]:
        return [row["id"] for row in rows(CsvFiles([tmp_path / each for each in patterns], IDS))]

    assert ids("") == [5, 8, 13]
    assert ids("*") == [5, 8]
    assert ids("*.csv", "a.csv", "a*") == [5, 8]
    assert ids("**/*.csv") == [5, 8, 13]
    assert ids("b[1].csv") == [8]
    assert ids("_tmp/*.csv") == [10]
    assert ids("_SUCCESS") == [8]


NAMES = (
    "a b",
    "a%20b",
    "%",
    "a\nb",
    "ä#b",
    "'\"",
    "[x]",
    "*?",
    "\\",
    "-",
    "#",
    "#0/0-1/2/x",
    "a=b",
)


@pytest.mark.parametrize("way", ["folder", "pattern", "each"])
def test_names_with_all_kinds_of_characters(tmp_path: Path, way: str) -> None:
    below = tmp_path / "[f] *\n?"
    for number, name in enumerate(NAMES):
        (below / name).parent.mkdir(parents=True, exist_ok=True)
        (below / name).write_text(f"id\n{number}\n")
    paths: Any = {
        "folder": below,
        "pattern": f"{tmp_path}/*/**",
        "each": [below / name for name in NAMES],
    }[way]
    found = run(source(CsvFiles(paths, IDS)).to_records().sink(Collect()), parallelism=3)["collect"]
    assert sorted(row["id"] for row in found) == list(range(len(NAMES)))


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "\udcff.csv").write_text("id\n1\n")
    with pytest.raises(GraphError, match="is not UTF-8"):
        rows(CsvFiles(tmp_path, IDS))


@pytest.mark.parametrize("pattern", ["", "*", "**/*", "*/*", "**/*.csv"])
def test_links_are_followed_but_not_in_circles(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/1.csv").write_text("id\n1\n")
    there = tmp_path / "there"
    there.mkdir()
    for name, target in [
        ("2.csv", "../real/1.csv"),
        ("folder", "../real"),
        ("gone.csv", "nowhere"),
        ("here", "."),
        ("up", ".."),
        ("real", "../real"),
    ]:
        (there / name).symlink_to(target)
    expected = {"": 3, "*": 1, "*/*": 2}.get(pattern, 3)
    assert len(rows(CsvFiles(there / pattern, IDS))) == expected


@pytest.mark.parametrize("name", ["gone.csv", "pipe.csv", "gone/*.csv"])
def test_what_is_no_file_is_not_there(tmp_path: Path, name: str) -> None:
    (tmp_path / "gone.csv").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(GraphError, match="there is no file at"):
        rows(CsvFiles(tmp_path / name, IDS))


@pytest.mark.parametrize(
    ("kind", "pattern"),
    [(CsvFiles, "")]
    + [(kind, each) for kind in (CsvFiles, TextFiles) for each in ("**", "*/*.csv")],
)
def test_a_folder_that_cannot_be_listed_is_named(
    tmp_path: Path, kind: Any, pattern: str, monkeypatch: Any
) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "shut").mkdir()
    (tmp_path / "open/1.csv").write_text("id\n1\n")
    scandir = os.scandir

    def refused(path: Any) -> Any:
        if str(path).endswith("shut"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    assert len(rows(CsvFiles(tmp_path / "open/*.csv", IDS))) == 1
    with pytest.raises(GraphError, match="shut cannot be listed: Permission denied"):
        kind(tmp_path / pattern).validate()


PATTERNS = [
    "*",
    "**",
    "*/*",
    "**/*",
    "**/a*",
    "[ab]/*",
    "[!a]*/a.x",
    "a/**",
    ".*",
    "**/.*",
    "?",
    "*/b/*",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_match_what_glob_matches(tmp_path: Path, pattern: str) -> None:
    for name in ("a/a.x", "a/b/c.x", "b/a.x", "b/.h", ".d/a.x", "a.x", ".e", "c/b/a.y", "[/a.x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    expected = set(glob.glob(f"{tmp_path}/{pattern}", recursive=True))  # noqa: PTH207
    found = {*matching(*divided(f"{tmp_path}/{pattern}"))}
    assert {each for each in found if Path(each).is_file()} == {
        each for each in expected if Path(each).is_file()
    }


@pytest.mark.parametrize("first", ["id,t\n", "\n\n", "id,t"])
def test_types_are_those_of_the_first_file_with_a_row(tmp_path: Path, first: str) -> None:
    (tmp_path / "1.csv").write_text(first)
    with pytest.raises(GraphError, match=r"1\.csv has no row whose types could be taken"):
        rows(CsvFiles(tmp_path))
    (tmp_path / "2.csv").write_text("id,t\n1,x\n")
    assert rows(CsvFiles(tmp_path)) == [{"id": 1, "t": "x"}]


@pytest.mark.parametrize(
    ("pattern", "key", "expected"),
    [
        ("a/*.x", "a/b.x", True),
        ("a/*.x", "a/b/c.x", False),
        ("a/**/*.x", "a/b/c.x", True),
        ("a/**", "a/b/c.x", True),
        ("a/?[0-9].x", "a/b1.x", True),
        ("a/[!b].x", "a/b.x", False),
        ("a.b/*", "a+b/c", False),
    ],
)
def test_patterns_of_keys(pattern: str, key: str, expected: bool) -> None:
    import re

    assert bool(re.fullmatch(expression(pattern), key)) == expected


@pytest.mark.parametrize(
    ("paths", "settings", "message"),
    [
        ("nope.csv", {}, "there is no file at .*nope.csv"),
        ("nope-*.csv", {"schema": IDS}, r"there is no file at .*nope-\*.csv"),
        ("", {}, "CsvFiles has no file yet whose schema it could take"),
        ([], {}, "CsvFiles got no path"),
        ("http://host/a", {}, "expected a path or s3://"),
        (Path("s3://bucket/a"), {}, "give s3://… as a text"),
        ("", {"watch": 0}, "watch is 0, expected seconds"),
        ("", {"schema": "id"}, "CsvFiles got the schema 'id', expected"),
        ("", {"schema": pa.schema([("a", pa.int64())] * 2)}, "two fields of a name"),
        ("", {"delimiter": ",,"}, "delimiter is ',,', expected one ASCII character"),
        ("", {"delimiter": '"'}, "are both"),
    ],
)
def test_what_cannot_work_is_said_before_a_task_runs(
    tmp_path: Path, paths: Any, settings: dict[str, Any], message: str, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GraphError, match=message):
        CsvFiles(paths or (paths if paths == [] else tmp_path), **settings).validate()


def test_an_empty_folder_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").touch()
    assert rows(CsvFiles(tmp_path, IDS)) == []
    assert rows(CsvFiles(tmp_path / "*.csv", IDS)) == []


def test_a_file_that_is_written_to_is_left_for_later(tmp_path: Path) -> None:
    store = store_of(str(tmp_path))
    (tmp_path / "old.csv").write_text("id\n")
    os.utime(tmp_path / "old.csv", (1, 1))
    new = tmp_path / "new.csv"
    new.write_text("id\n")
    later = time.time() + 1000
    for at, expected in ((0, ["old"]), (1, ["old"]), (1, ["new", "old"]), (1, ["new", "old"])):
        os.utime(new, (later + at, later + at))
        assert [Path(file.path).stem for file in store.files(60)] == expected
    assert [Path(file.path).stem for file in store_of(str(tmp_path)).files()] == ["new", "old"]


def test_many_files_in_a_job(tmp_path: Path) -> None:
    """With watermarks, too; each file is closed at its end."""
    for number in range(300):
        content = "".join(f"{number * 10 + at},{at}\n" for at in range(10))
        (tmp_path / f"{number}.csv").write_text("id,at\n" + content)
    before = len([*Path("/proc/self/fd").iterdir()])
    for times in (False, True):
        stream: Any = source(CsvFiles(tmp_path))
        if times:
            stream = stream.with_event_time("at")
        found = run(stream.to_records().sink(Collect()), parallelism=2, batch_size=4)["collect"]
        assert sorted(row["id"] for row in found) == list(range(3000))
    assert len([*Path("/proc/self/fd").iterdir()]) <= before + 2


def test_a_wrong_row_ends_the_job(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\n1\nx\n")
    with pytest.raises(OperatorError, match=r"a\.csv, line 3"):
        run(source(CsvFiles(tmp_path, IDS)).sink(Collect()))


def test_successive_files_go_to_successive_tasks(tmp_path: Path) -> None:
    for number in range(8):
        write(tmp_path / f"part-{number:05}-9f3c.parquet", id=[number])
    files = ParquetFiles(tmp_path)
    files.validate()
    reader = files.open(TaskContext("t", 0, 1, 1000, "job"))
    numbers = [files.number(name) for name in reader.partitions()]
    assert numbers == list(range(numbers[0], numbers[0] + 8))
