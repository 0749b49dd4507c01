"""Rows of CSV files end where Python's csv module says, however blocks are cut."""

from __future__ import annotations

import csv
import io
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.graph.context import TaskContext
from operators.sources import CsvFiles
from operators.sources.files import text
from tests.part import examples

VALUES = st.text(alphabet='ab",\n\r x"', max_size=6)
SCHEMA = pa.schema([("a", pa.string()), ("b", pa.string())])


def read(files: CsvFiles) -> list[Any]:
    files.validate()
    reader = files.open(TaskContext("t", 0, 1, 10, "job"))
    found: list[Any] = []
    for name in reader.partitions():
        partition = reader.open_partition(name, None)
        while (batch := partition.poll(10)) is not None:
            found += zip(*(column.to_pylist() for column in batch.columns), strict=True)
        partition.close()
    return found


@settings(deadline=None, max_examples=examples(60))
@given(
    st.lists(st.tuples(VALUES, VALUES), max_size=8),
    st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([1, 5, 16, 1000]),
    st.booleans(),
)
def test_what_is_written_is_read(
    rows: list[tuple[str, str]], quoting: int, end: str, size: int, has_last_end: bool
) -> None:
    if quoting == csv.QUOTE_MINIMAL:  # what quotes a lone \\r depends on Python's version
        rows = [(first.replace("\r", ""), second.replace("\r", "")) for first, second in rows]
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, quoting=quoting, lineterminator=end)  # type: ignore[arg-type]
    writer.writerow(["a", "b"])
    writer.writerows(rows)
    content = stream.getvalue().encode()
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(text, "_BLOCK_BYTES", size):
        path = Path(folder) / "a.csv"
        path.write_bytes(content if has_last_end else content.removesuffix(end.encode()))
        found = read(CsvFiles(path, SCHEMA))
    if quoting == csv.QUOTE_MINIMAL:  # it does not quote empty texts
        found = [(first or "", second or "") for first, second in found]
    assert found == rows


@settings(deadline=None, max_examples=examples(40))
@given(
    st.lists(st.tuples(st.text(alphabet='a"b ', min_size=1, max_size=6), VALUES), max_size=8),
    st.sampled_from([1, 5, 16, 1000]),
)
def test_quotes_inside_of_a_plain_field_are_its_own(rows: list[tuple[str, str]], size: int) -> None:
    rows = [("x" + first, second) for first, second in rows]
    content = "a,b\n"
    for first, second in rows:
        doubled = second.replace('"', '""')
        content += f'{first},"{doubled}"\n'
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(text, "_BLOCK_BYTES", size):
        path = Path(folder) / "a.csv"
        path.write_bytes(content.encode())
        assert read(CsvFiles(path, SCHEMA)) == rows
