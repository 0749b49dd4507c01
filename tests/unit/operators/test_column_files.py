"""Parquet and CSV: records as columns, sub-folders by their values, when a file is full."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from pydantic import BaseModel

from engine.errors import GraphError, OperatorError
from engine.graph import TaskContext
from engine.testing import run
from operators import source
from operators.sinks import ByTime, CsvSink, JsonLines, ParquetSink
from operators.sources import Collection

Task = Callable[..., TaskContext]
kinds = pytest.mark.parametrize("kind", [ParquetSink, CsvSink])
CH, NONE = "country=CH", "country=__HIVE_DEFAULT_PARTITION__"


@dataclass
class Visit:
    country: str | None
    pages: int


class Pair(NamedTuple):
    country: str | None
    pages: int


class Model(BaseModel):
    country: str | None
    pages: int


VISITS: list[tuple[str | None, int]] = [("CH", 3), (None, 1), ("é/=%,\n", 2), ("", 4), ("CH", 5)]
ROWS = [{"country": country, "pages": pages} for country, pages in VISITS]
RECORDS: dict[str, Any] = {
    "dicts": ROWS,
    "dataclasses": [Visit(*each) for each in VISITS],
    "named tuples": [Pair(*each) for each in VISITS],
    "models": [Model(**each) for each in ROWS],
    "mixed": [Visit(*VISITS[0]), Pair(*VISITS[1]), *ROWS[2:]],
    "tuples": VISITS,
    "columns": pa.Table.from_pylist(ROWS),
    "dictionary": pa.table(
        {
            "country": pa.array([each[0] for each in VISITS]).dictionary_encode(),
            "pages": pa.array([each[1] for each in VISITS]),
        }
    ),
}
SCHEMAS: dict[str, Any] = {
    "none": None,
    "names": ["country", "pages"],
    "types": pa.schema({"country": pa.string(), "pages": pa.int64()}),
    "a dict": {"country": "string", "pages": "int64"},
}


def table(folder: Path) -> pa.Table:
    """What PyArrow reads; columns of sub-folders are texts."""
    how = "parquet" if list(folder.rglob("*.parquet")) else "csv"
    hive = None
    if list(folder.glob("country=*")):
        hive = pa.dataset.partitioning(pa.schema({"country": pa.string()}), flavor="hive")
    form: Any = how
    if how == "csv":
        options = pa.csv.ConvertOptions(
            strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
        )
        parse = pa.csv.ParseOptions(newlines_in_values=True)
        form = pa.dataset.CsvFileFormat(parse_options=parse, convert_options=options)
    return pa.dataset.dataset(folder, format=form, partitioning=hive).to_table()


def names(folder: Path) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return sorted(path.relative_to(folder).as_posix() for path in files)


def found(folder: Path) -> list[Any]:
    rows = table(folder).select(["country", "pages"]).to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=repr)


def written(sink: Any, *batches: Any) -> None:
    run(source(Collection(list(batches))).sink(sink), batch_size=2)


@pytest.mark.table(4)
@kinds
@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("records", RECORDS)
@pytest.mark.parametrize("partition_by", [(), "country"])
def test_records_and_columns(
    kind: Any, schema: str, records: str, partition_by: Any, tmp_path: Path
) -> None:
    if (schema, records) == ("none", "tuples"):
        with pytest.raises(OperatorError, match=r"a tuple of 2, whose columns have no names"):
            written(kind(tmp_path), *VISITS)
        return
    sink = kind(tmp_path, SCHEMAS[schema], partition_by=partition_by)
    run(source(Collection(RECORDS[records])).sink(sink), batch_size=2, parallelism=2)
    assert found(tmp_path) == sorted(VISITS, key=repr)
    if partition_by:
        folders = {name.rpartition("/")[0] for name in names(tmp_path)}
        assert folders == {CH, NONE, "country=", "country=%C3%A9%2F%3D%25%2C%0A"}
        if kind is ParquetSink:
            frame = pl.read_parquet(tmp_path, hive_partitioning=True)
            assert frame.sort("pages").rows() == [
                (n, c) for c, n in sorted(VISITS, key=lambda v: v[1])
            ]


CHANGES: dict[str, tuple[list[Any], str]] = {
    "another type": (
        [pa.record_batch({"a": [1]}), pa.record_batch({"a": ["x"]})],
        "column 'a' is string, expected int64: batches before have another type",
    ),
    "a column more": (
        [pa.record_batch({"a": [1]}), pa.record_batch({"a": [1], "b": [2]})],
        "got a batch with 'b' more, expected the columns 'a'",
    ),
    "a column less": (
        [pa.record_batch({"a": [1], "b": [2]}), pa.record_batch({"a": [1]})],
        "got a batch with no 'b', expected the columns 'a', 'b'",
    ),
    "another type in a record": (
        [{"a": 1}, {"a": 1}, {"a": 2}, {"a": "x"}],
        r"failed on record \{'a': 'x'\}: TypeError: column 'a' is 'x', expected int64",
    ),
    "another type in a batch of records": (
        [{"a": 1}, {"a": "x"}],
        r"failed on record \{'a': 'x'\}: TypeError: column 'a' is 'x', expected a value like",
    ),
    "a key more": (
        [{"a": 1}, {"a": 1}, {"a": 2}, {"b": 3, "a": 1}],
        r"failed on record \{'b': 3, 'a': 1\}: TypeError: .* got a record with 'b' more",
    ),
    "a fraction": (
        [{"a": 1}, {"a": 1}, {"a": 2}, {"a": 2.5}],
        r"failed on record \{'a': 2.5\}: TypeError: column 'a' is 2.5, expected int64",
    ),
    "no record": ([{"a": 1}, 5], "failed on record 5: TypeError: .* got int, expected a dict"),
    "a text that is none": (
        [{"a": "x"}, {"a": "\ud800"}],
        r"failed on record \{'a': '.ud800'\}: TypeError: column 'a'",
    ),
    "two columns of one name": (
        [pa.RecordBatch.from_arrays([pa.array([1])] * 2, ["a", "a"])],
        "got the column names 'a', 'a', expected texts, each once",
    ),
    "nothing": ([{}], "records without a column"),
}


@kinds
@pytest.mark.parametrize("change", CHANGES)
def test_a_schema_that_changes_is_named(kind: Any, change: str, tmp_path: Path) -> None:
    records, told = CHANGES[change]
    with pytest.raises(OperatorError, match=told):
        written(kind(tmp_path), *records)
    assert names(tmp_path) == []


def test_a_dict_says_types(tmp_path: Path) -> None:
    written(ParquetSink(tmp_path, {"a": "int8", "b": ["string"]}), {"a": 1}, {"b": ["x"], "a": 2})
    assert table(tmp_path).schema == pa.schema({"a": pa.int8(), "b": pa.list_(pa.string())})


@kinds
def test_a_schema_that_is_given_is_kept(kind: Any, tmp_path: Path) -> None:
    schema = pa.schema([pa.field("a", pa.int32(), nullable=False), ("b", pa.string())])
    written(kind(tmp_path / "fine", schema), {"a": 1}, {"b": "x", "a": 2})
    assert table(tmp_path / "fine").to_pydict() == {"a": [1, 2], "b": [None, "x"]}
    for record, told in [
        ({"a": None}, r"column 'a' is None, expected int32: .* not nullable"),
        ({"a": 2**40}, "column 'a' is 1099511627776, expected int32"),
        ({"a": 1, "c": 1}, "a record with 'c' more"),
    ]:
        with pytest.raises(OperatorError, match=told):
            written(kind(tmp_path / "bad", schema), {"a": 1}, {"a": 1}, record)
    batch = pa.record_batch({"a": pa.array([1, None], pa.int32()), "b": ["x", "y"]})
    with pytest.raises(OperatorError, match="column 'a' is int32, expected int32 and not null"):
        written(kind(tmp_path / "bad", schema), batch)
    assert names(tmp_path / "bad") == []


def test_a_column_without_values_gets_its_type_later(tmp_path: Path, task: Task) -> None:
    batches: list[Any] = [[{"a": None}], [{"a": None}, {"a": "x"}], pa.record_batch({"a": ["y"]})]
    for row_group_rows in (100, 1):
        writer = ParquetSink(tmp_path, row_group_rows=row_group_rows).open(task())
        if row_group_rows == 1:
            writer.write(batches[0])
            with pytest.raises(TypeError, match=r"'a' is string, and files are written in which"):
                writer.write(batches[1])
        else:
            for batch in batches:
                writer.write(batch)
            writer.commit(1, writer.prepare(1))
            assert table(tmp_path).to_pydict() == {"a": [None, None, "x", "y"]}
            (tmp_path / "part-00000.parquet").unlink()
        writer.abort()


def test_dictionaries_and_nested_columns_come_back(tmp_path: Path) -> None:
    kind = pa.struct({"x": pa.list_(pa.int8()), "y": pa.map_(pa.string(), pa.float64())})
    schema = pa.schema({"d": pa.dictionary(pa.int32(), pa.string()), "n": kind})
    parts = [
        pa.record_batch(
            {
                "d": pa.array(words, pa.dictionary(pa.int8(), pa.string())),
                "n": pa.array([{"x": [1, 2], "y": [("k", 0.5)]}, None], kind),
            }
        )
        for words in (["a", "b"], ["c", "a"], [None, "d"])
    ]
    written(ParquetSink(tmp_path, schema), *parts)
    whole = pq.read_table(tmp_path)
    assert whole.schema == schema
    assert whole["d"].to_pylist() == ["a", "b", "c", "a", None, "d"]
    assert whole["n"].to_pylist()[:2] == [{"x": [1, 2], "y": [("k", 0.5)]}, None]


def test_csv_as_others_read_it(tmp_path: Path) -> None:
    moment = datetime(2026, 11, 25, 7, tzinfo=timezone.utc)
    rows = [
        {"t": 'a "b"\n,', "n": None, "when": moment, "day": date(2026, 1, 2), "x": Decimal("1.50")},
        {"t": "", "n": True, "when": None, "day": None, "x": None},
    ]
    for compression in (None, "gzip", "zstd"):
        out = tmp_path / str(compression)
        written(CsvSink(out, compression=compression), *rows)
        end = {None: "", "gzip": ".gz", "zstd": ".zst"}[compression]
        assert names(out) == [f"part-00000.csv{end}"]
        with pa.input_stream(out / f"part-00000.csv{end}", compression=compression) as stream:
            text = stream.read().decode()
        assert text == (
            '"t","n","when","day","x"\n'
            '"a ""b""\n,",,2026-11-25 07:00:00.000000Z,2026-01-02,1.50\n"",true,,,\n'
        )
    written(CsvSink(tmp_path / "plain", header=False, delimiter=";"), rows[1])
    assert (tmp_path / "plain" / "part-00000.csv").read_text() == '"";true;;;\n'


UNWRITABLE = {
    "list": (CsvSink, pa.list_(pa.int8()), "CSV does not have"),
    "bytes": (CsvSink, pa.binary(), "CSV does not have: it is text"),
    "interval": (ParquetSink, pa.month_day_nano_interval(), "Parquet does not have"),
    "empty struct": (ParquetSink, pa.struct([]), "Parquet does not have"),
}


@pytest.mark.parametrize("case", UNWRITABLE)
def test_types_that_files_do_not_have_are_named(case: str, tmp_path: Path) -> None:
    kind, column, told = UNWRITABLE[case]
    batch = pa.record_batch({"a": [1], "b": pa.nulls(1, column)})
    with pytest.raises(OperatorError, match=f"column 'b' is of .*, which {told}"):
        written(kind(tmp_path), batch)
    with pytest.raises(GraphError, match=f"column 'b' is of .*, which {told}"):
        kind(tmp_path, batch.schema).validate()
    assert names(tmp_path) == []


def test_a_null_alone_in_its_line_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="column 'a' is null, and is the only one of its file"):
        written(CsvSink(tmp_path), {"a": 1}, {"a": None})
    assert names(tmp_path) == []


SETTINGS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "compression": (lambda out: ParquetSink(out, compression="x"), "refuses these settings"),
    "setting": (lambda out: ParquetSink(out, colour="red"), "refuses these settings.*colour"),
    "csv compression": (lambda out: CsvSink(out, compression="snappy"), "expected gzip, zstd"),  # type: ignore[arg-type]
    "delimiter": (lambda out: CsvSink(out, delimiter="||"), "delimiter is '||'"),
    "rows": (lambda out: ParquetSink(out, row_group_rows=0), "row_group_rows is 0"),
    "bytes": (lambda out: CsvSink(out, max_bytes=0), "max_bytes is 0, expected a number above 0"),
    "seconds": (lambda out: ParquetSink(out, max_seconds=-1), "max_seconds is -1"),
    "open": (lambda out: CsvSink(out, max_open_files=0), "max_open_files is 0"),
    "a text": (lambda out: CsvSink(out, "a"), "schema is 'a', expected a pyarrow.Schema or a list"),
    "twice": (lambda out: CsvSink(out, ["a", "a"]), "each once"),
    "a type": (lambda out: CsvSink(out, {"a": "int65"}), "CsvSink got the type 'int65' for 'a'"),
    "unit": (lambda out: CsvSink(out, partition_by=ByTime("t", "week")), "unit is 'week'"),  # type: ignore[arg-type]
    "level": (lambda out: CsvSink(out, partition_by=[3]), "partition_by has 3"),  # type: ignore[list-item]
    "hidden": (lambda out: CsvSink(out, partition_by="_a"), "does not begin with . or _"),
    "both": (lambda out: CsvSink(out, partition_by=["a", "a"]), "partition_by has 'a' twice"),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_settings_that_are_refused(case: str, tmp_path: Path) -> None:
    make, told = SETTINGS[case]
    with pytest.raises(GraphError, match=told.replace("|", r"\|")):
        make(tmp_path)


# --- sub-folders --------------------------------------------------------------------------------

TIMES = [datetime(2026, 11, 25, 23, 30) + timedelta(hours=n) for n in range(3)]
BY_TIME: dict[str, tuple[pa.DataType, Any, list[str]]] = {
    "year": (pa.timestamp("ns"), "year", ["year=2026"]),
    "month": (pa.timestamp("s"), "month", ["month=2026-11"]),
    "day": (pa.timestamp("us"), "day", ["day=2026-11-25", "day=2026-11-26"]),
    "hour": (
        pa.timestamp("ms"),
        "hour",
        ["hour=2026-11-25T23", "hour=2026-11-26T00", "hour=2026-11-26T01"],
    ),
    "in utc": (
        pa.timestamp("us", "Asia/Tokyo"),
        "hour",
        ["hour=2026-11-25T23", "hour=2026-11-26T00", "hour=2026-11-26T01"],
    ),
    "date": (pa.date32(), "day", ["day=2026-11-25", "day=2026-11-26"]),
}


@kinds
@pytest.mark.parametrize("case", BY_TIME)
def test_sub_folders_by_time(kind: Any, case: str, tmp_path: Path) -> None:
    column, unit, folders = BY_TIME[case]
    times = pa.array(TIMES, pa.timestamp("us")).cast(column, safe=False)
    batch = pa.record_batch({"n": range(4), "at": pa.concat_arrays([times, pa.nulls(1, column)])})
    written(kind(tmp_path, partition_by=ByTime("at", unit)), batch)
    null = f"{unit}=__HIVE_DEFAULT_PARTITION__"
    assert [name.split("/")[0] for name in names(tmp_path)] == sorted([*folders, null])
    assert sorted(
        pa.dataset.dataset(tmp_path, format=kind.__name__[:-4].lower()).to_table()["n"].to_pylist()
    ) == [0, 1, 2, 3]


REFUSED: dict[str, tuple[Any, str]] = {
    "no column": ("c", "partition_by has 'c', expected one of the columns n, at, day"),
    "a float": ("x", "partition_by has 'x' of double, expected texts"),
    "a time": ("at", r"partition_by has 'at' of timestamp.*\n\nhint: ByTime"),
    "a number": (ByTime("n"), r"ByTime\('n'\) is of int64, expected a column of times"),
    "a column of the name": (ByTime("at"), "there is a column 'day', which readers would"),
    "an hour of a date": (ByTime("day", "hour"), r"ByTime\('day'\) is of date32"),
}


@kinds
@pytest.mark.parametrize("case", REFUSED)
def test_sub_folders_that_are_refused(kind: Any, case: str, tmp_path: Path) -> None:
    by, told = REFUSED[case]
    batch = pa.record_batch({"n": [1], "at": TIMES[:1], "day": [date(2026, 1, 1)], "x": [0.5]})
    with pytest.raises(OperatorError, match=told):
        written(kind(tmp_path, partition_by=by), batch)
    with pytest.raises(GraphError, match=told):
        kind(tmp_path, batch.schema, partition_by=by).validate()
    assert names(tmp_path) == []


@kinds
def test_a_value_that_is_too_long_for_a_folder(kind: Any, tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match=r"would have a name of .* bytes, expected 255 at most"):
        written(kind(tmp_path, partition_by="a"), {"a": "é" * 50, "b": 1})
    with pytest.raises(OperatorError, match="partition_by has all columns"):
        written(kind(tmp_path, partition_by="a"), {"a": "x"})
    assert names(tmp_path) == []


@kinds
@pytest.mark.parametrize("most", [1, 2, 64])
def test_open_files_are_bounded(kind: Any, most: int, tmp_path: Path, task: Task) -> None:
    writer: Any = kind(tmp_path, partition_by=["a", "b"], max_open_files=most).open(task())
    for turn in range(3):
        writer.write([{"a": a, "b": b, "n": turn} for a in "xyz" for b in (True, None)])
        assert len(writer._open) <= most
    writer.commit(1, writer.prepare(1))
    expected = 6 if most == 64 else 18
    assert len(names(tmp_path)) == expected
    assert names(tmp_path)[0].startswith("a=x/b=")
    assert table(tmp_path).num_rows == 18


# --- full files ---------------------------------------------------------------------------------


@kinds
def test_files_that_are_full(kind: Any, tmp_path: Path, task: Task) -> None:
    writer = kind(tmp_path, max_bytes=20_000).open(task())
    for at in range(40):
        writer.write([{"n": at * 100 + n, "t": f"{n * 7919:x}" * 3} for n in range(100)])
    final = [name for name in names(tmp_path) if not name.startswith(".")]
    assert final == []
    writer.commit(1, writer.prepare(1))
    sizes = [(tmp_path / name).stat().st_size for name in names(tmp_path)]
    assert len(sizes) > 3
    assert [size for size in sizes if size < 20_000] == [min(sizes)]  # the last one
    assert max(sizes) < 40_000
    assert sorted(table(tmp_path)["n"].to_pylist()) == list(range(4000))


@kinds
def test_files_that_are_old(kind: Any, tmp_path: Path, task: Task) -> None:
    now = 0
    context = replace(task(), now_ns=lambda: now)
    writer = kind(tmp_path, max_seconds=10, partition_by="a").open(context)
    for second in range(25):
        now = second * 10**9
        writer.write([{"a": second % 2, "n": second}])
    writer.commit(1, writer.prepare(1))
    assert len(names(tmp_path)) == 5
    assert sorted(table(tmp_path)["n"].to_pylist()) == list(range(25))


@kinds
def test_epochs_have_full_files_before_they_are_prepared(
    kind: Any, tmp_path: Path, task: Task
) -> None:
    context = replace(task(), checkpoints=True, generation=1)
    writer = kind(tmp_path, max_bytes=1).open(context)
    for epoch in (1, 2):
        for n in range(3):
            writer.write([{"n": n}])
        before = [name for name in names(tmp_path) if name.endswith(".prepared")]
        assert len(before) == 3
        writer.commit(epoch, writer.prepare(epoch))
    writer.close()
    end = kind(tmp_path).layout.kind
    assert names(tmp_path) == [
        f"part-00000-0000000{epoch}{count}{end}"
        for epoch in (1, 2)
        for count in ("-c0001", "-c0002", "")
    ]


# --- a folder that has files --------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("partition_by", [(), "a"])
def test_files_of_an_earlier_job(kind: Any, partition_by: Any, tmp_path: Path) -> None:
    def job(replace: bool, *keys: str) -> None:
        sink = kind(tmp_path, partition_by=partition_by, replace=replace, max_bytes=1)
        records = [{"a": key, "b": 1} for key in keys]
        run(source(Collection(records)).sink(sink), batch_size=1, parallelism=2)

    job(False, "x", "y", "z")
    (tmp_path / "notes.txt").touch()
    before = names(tmp_path)
    with pytest.raises(OperatorError, match=r"is of an earlier job, expected a folder without"):
        job(False, "v")
    assert names(tmp_path) == before
    job(True, "w")
    file, notes = sorted(names(tmp_path), key=lambda name: name == "notes.txt")
    assert notes == "notes.txt"
    assert file.startswith("a=w/part-0000" if partition_by else "part-0000")


def test_sinks_of_one_folder_are_refused(tmp_path: Path) -> None:
    numbers = source(Collection([{"a": 1, "b": 2}]))
    (tmp_path / "a=1").mkdir()
    whole = ParquetSink(tmp_path, partition_by="a")
    for other in (ParquetSink(tmp_path), ParquetSink(tmp_path / "a=1")):
        for pair in ([whole, other], [other, whole]):
            with pytest.raises(GraphError, match=r"both write part-\*.parquet into"):
                run([numbers.sink(each) for each in pair])
    run([numbers.sink(each) for each in (whole, CsvSink(tmp_path), JsonLines(tmp_path / "a=1"))])
    assert len(names(tmp_path)) == 3


@kinds
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("partition_by", [(), "a"])
def test_a_job_without_records(kind: Any, known: bool, partition_by: Any, tmp_path: Path) -> None:
    schema = pa.schema({"a": pa.int8(), "b": pa.string()}) if known else None
    run(source(Collection([])).sink(kind(tmp_path, schema, partition_by=partition_by)))
    if known and not partition_by and kind is ParquetSink:
        assert table(tmp_path).schema == schema
    else:
        assert names(tmp_path) == []
