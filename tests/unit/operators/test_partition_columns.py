"""Values in the names of folders as columns: they come back, and what cannot is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from engine.errors import GraphError
from engine.network import DecodeError
from engine.testing import run
from operators import source
from operators.sinks import ByTime, Collect, CsvSink, ParquetSink
from operators.sources import Collection, CsvFiles, JsonFiles, ParquetFiles
from tests.unit.operators.test_files_to_columns import read, rows

KINDS: dict[str, Callable[..., Any]] = {
    "parquet": ParquetFiles,
    "csv": CsvFiles,
    "json": JsonFiles,
}
kinds = pytest.mark.parametrize("kind", KINDS)
NULL = "__HIVE_DEFAULT_PARTITION__"


def write(path: Path, **columns: list[Any]) -> None:
    """A file of the kind that its name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table(columns)
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".csv":
        lines = [",".join(map(str, row.values())) for row in table.to_pylist()]
        path.write_text("\n".join([",".join(columns), *lines, ""]))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


@pytest.mark.parametrize(("sink", "files"), [(ParquetSink, ParquetFiles), (CsvSink, CsvFiles)])
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("string", ["a", None, "", "é/=%,\n#?*[x]", " ", "a"]),
        ("int16", [1, -2, None]),
        ("bool", [True, False, None]),
        ("date32", [date(2026, 1, 2), None, date(1969, 1, 1)]),
        (pa.decimal128(9, 2), [Decimal("1.50"), None, Decimal("-0.01")]),
        (pa.dictionary(pa.int32(), pa.string()), ["x", None, "y"]),
    ],
)
def test_what_a_sink_splits_comes_back(
    sink: Any, files: Any, kind: Any, values: list[Any], tmp_path: Path
) -> None:
    records = [{"value": value, "n": number} for number, value in enumerate(values)]
    schema = {"value": kind, "n": "int64"}
    run(
        source(Collection(records)).sink(sink(tmp_path, schema, partition_by="value")),
        parallelism=2,
    )
    for settings in ({"partition_columns": {"value": kind}}, {"schema": schema}):
        found = files(tmp_path, **settings)
        assert sorted(rows(found), key=lambda row: row["n"]) == records
        assert found.schema.field("value").type == read(found)[0].column("value").type
    of_text = rows(files(tmp_path))
    assert all(row["value"] is None or isinstance(row["value"], str) for row in of_text)
    assert sorted(row["n"] for row in of_text) == list(range(len(values)))
    assert rows(files(tmp_path, partition_columns={}))[0].keys() == {"n"}


def test_times_of_folders_come_back(tmp_path: Path) -> None:
    at = datetime(2026, 11, 25, 7, 30)
    run(
        source(Collection([{"at": at}])).sink(
            ParquetSink(tmp_path, partition_by=ByTime("at", "hour"))
        )
    )
    hour = {"hour": "timestamp[s]"}
    (row,) = rows(ParquetFiles(tmp_path, partition_columns=hour))
    assert row == {"at": at, "hour": datetime(2026, 11, 25, 7)}


@kinds
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [{"n": 1, "a": "x", "b": "1"}, {"n": 2, "a": "y", "b": None}]),
        ({"columns": ["n"]}, [{"n": 1}, {"n": 2}]),
        ({"columns": ["b"]}, [{"b": "1"}, {"b": None}]),
        (
            {"columns": ["b", "n", "a"]},
            [{"b": "1", "n": 1, "a": "x"}, {"b": None, "n": 2, "a": "y"}],
        ),
        ({"partition_columns": {}}, [{"n": 1}, {"n": 2}]),
        ({"partition_columns": {"b": "int8"}}, [{"n": 1, "b": 1}, {"n": 2, "b": None}]),
        ({"schema": {"n": "int64"}}, [{"n": 1}, {"n": 2}]),
        ({"schema": {"b": "int8", "n": "int64"}}, [{"b": 1, "n": 1}, {"b": None, "n": 2}]),
        ({"schema": {"a": "string"}}, [{"a": "x"}, {"a": "y"}]),
        (
            {"schema": {"n": "int64"}, "partition_columns": {"a": "string"}},
            [{"n": 1, "a": "x"}, {"n": 2, "a": "y"}],
        ),
    ],
)
def test_which_columns_come_out(
    kind: str, settings: dict[str, Any], expected: list[Any], tmp_path: Path
) -> None:
    write(tmp_path / f"a=x/b=1/1.{kind}", n=[1])
    write(tmp_path / f"a=y/b={NULL}/2.{kind}", n=[2])
    found = rows(KINDS[kind](tmp_path, **settings))
    assert found == expected
    assert [list(row) for row in found] == [list(row) for row in expected]


@kinds
@pytest.mark.parametrize(
    ("first", "second", "settings", "message"),
    [
        ("a=x", "", {}, r"2\.\w+ has no column 'a'"),
        ("", "a=x", {}, r"2\.\w+ has a column 'a', which the first file has not"),
        ("a=x", "b=x", {}, r"2\.\w+ has a column 'b', which the first file has not"),
        ("a=1", "a=x", {"partition_columns": {"a": "int8"}}, "folder a=x is not of int8: .*'x'"),
        ("a=1", "a=", {"schema": {"n": "int64", "a": "int8"}}, "folder a= is not of int8"),
        ("a=x", "b=x", {"partition_columns": {"a": "string"}}, r"2\.\w+ is in no folder a=…"),
        ("n=1", "n=2", {}, r"1\.\w+ has a column 'n', and it is in a folder n=….*\n.*columns=\{\}"),
        ("a=1", "n=2", {"columns": ["n"]}, r"2\.\w+.* '?n"),
        ("n=1", "n=2", {"schema": {"n": "int64"}}, r" n.*partition_columns=\{\}"),
        ("a=%FF", "a=x", {}, "'%FF' is not UTF-8"),
    ],
)
def test_folders_that_differ_are_named(
    kind: str, first: str, second: str, settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    write(tmp_path / "0" / first / f"1.{kind}", n=[1])
    write(tmp_path / "1" / second / f"2.{kind}", n=[2])
    if kind == "json" and (first, second) == ("a=x", ""):  # objects may lack fields
        assert [row["a"] for row in rows(JsonFiles(tmp_path))] == ["x", None]
        return
    with pytest.raises((GraphError, DecodeError), match=f"(?s){message}"):
        read(KINDS[kind](tmp_path, **settings))


@kinds
def test_columns_of_files_where_folders_are_left_out(kind: str, tmp_path: Path) -> None:
    write(tmp_path / f"n=5/1.{kind}", n=[1])
    assert rows(KINDS[kind](tmp_path, partition_columns={})) == [{"n": 1}]


CONDITIONS: dict[str, tuple[Any, list[int], list[str]]] = {
    "equal": (pc.field("day") == date(2026, 1, 2), [2], ["2026-01-02"]),
    "greater": (pc.field("day") > date(2026, 1, 1), [2, 3], ["2026-01-02", "2026-01-03"]),
    "in": (pc.field("day").isin([date(2026, 1, 1)]), [1], ["2026-01-01"]),
    "null": (pc.field("day").is_null(), [4], [NULL]),
    "not": (~(pc.field("day") == date(2026, 1, 2)), [1, 3], ["2026-01-01", "2026-01-03"]),
    "both": (
        (pc.field("day") > date(2026, 1, 1)) & (pc.field("n") > 2),
        [3],
        ["2026-01-02", "2026-01-03"],
    ),
    "either": (
        (pc.field("day") == date(2026, 1, 1)) | (pc.field("n") == 4),
        [1, 4],
        ["2026-01-01", "2026-01-02", "2026-01-03", NULL],
    ),
    "none": (pc.field("day") > date(2027, 1, 1), [], []),
    "of files": (pc.field("n") < 2, [1], ["2026-01-01", "2026-01-02", "2026-01-03", NULL]),
}


@pytest.mark.parametrize("watch", [None, 1e-6])
@pytest.mark.parametrize("columns", [None, ["n"]])
@pytest.mark.parametrize("case", CONDITIONS)
def test_folders_that_a_condition_excludes_are_not_read(
    case: str, columns: Any, watch: float | None, tmp_path: Path
) -> None:
    where, expected, days = CONDITIONS[case]
    for n, day in enumerate(("2026-01-01", "2026-01-02", "2026-01-03", NULL), 1):
        write(tmp_path / f"day={day}/1.parquet", n=[n])
    files = ParquetFiles(
        tmp_path, None, columns, where, watch=watch, partition_columns={"day": "date32"}
    )
    found = rows(files)
    assert [row["n"] for row in found] == expected
    assert all(list(row) == (columns or ["n", "day"]) for row in found)
    names = list(files.open(None).partitions())  # type: ignore[arg-type]
    assert [name.split("day=")[1].split("/")[0] for name in names] == days


def test_a_file_that_no_condition_wants_may_be_broken(tmp_path: Path) -> None:
    write(tmp_path / "day=1/1.parquet", n=[1])
    (tmp_path / "day=2").mkdir()
    (tmp_path / "day=2/2.parquet").write_text("nonsense")
    files = ParquetFiles(tmp_path, where=pc.field("day") == "1")
    assert run(source(files).to_records().sink(Collect()))["collect"] == [{"n": 1, "day": "1"}]
