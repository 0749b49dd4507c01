"""Sessions of web logs, beside those that a plain loop finds."""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from engine.testing import run
from pipelines.web_logs import LOGS, Hit, hit_of, schema, web_logs, write_samples

PAUSE = timedelta(minutes=30)


def oracle(lines: list[str]) -> Iterator[dict[str, Any]]:
    by_client: dict[tuple[str, str], list[Hit]] = defaultdict(list)
    for line in lines:
        try:
            hit = hit_of(line)
        except ValueError:
            continue
        by_client[hit.host, hit.agent].append(hit)
    for (host, agent), hits in by_client.items():
        hits.sort(key=lambda hit: hit.time)
        session: list[Hit] = []
        for hit in [*hits, None]:
            if session and (hit is None or hit.time - session[-1].time >= PAUSE):
                yield {
                    "host": host,
                    "agent": agent,
                    "start": session[0].time,
                    "last": session[-1].time,
                    "requests": len(session),
                    "failed": sum(each.failed for each in session),
                    "bytes": sum(each.bytes for each in session),
                }
                session = []
            if hit is not None:
                session.append(hit)


def by_client(row: dict[str, Any]) -> Any:
    return row["start"], row["host"], row["agent"]


@pytest.mark.parametrize("parallelism", [1, 3])
def test_the_shipped_logs(parallelism: int, tmp_path: Path) -> None:
    for _ in range(2):  # the second run replaces the files of the first
        run(web_logs(out=str(tmp_path)), parallelism=parallelism)
    lines = [
        line
        for path in LOGS.parent.glob(LOGS.name)
        for line in gzip.decompress(path.read_bytes()).decode().splitlines()
    ]
    table = ds.dataset(tmp_path, partitioning="hive").to_table()
    assert table.select(schema().names).schema == schema()
    found = table.to_pylist()
    assert all(row.pop("day") == f"{row['start']:%Y-%m-%d}" for row in found)
    for row in found:  # which of two requests of a second comes first is not determined
        assert row.pop("first_path").startswith("/")
        assert row.pop("last_path").startswith("/")
    assert sorted(found, key=by_client) == sorted(oracle(lines), key=by_client)
    assert len(found) > 400


def test_the_shipped_logs_are_those_that_are_made(tmp_path: Path) -> None:
    write_samples(tmp_path)
    made = {path.name: gzip.decompress(path.read_bytes()) for path in tmp_path.iterdir()}
    shipped = {
        path.name: gzip.decompress(path.read_bytes()) for path in LOGS.parent.glob(LOGS.name)
    }
    assert made == shipped


LINES = {
    "combined": (
        '::1 - ann [25/Nov/2026:07:00:00 +0100] "GET /a?b=c HTTP/1.1" 404 - "-" "curl \\"8\\""',
        Hit("::1", datetime(2026, 11, 25, 6, tzinfo=timezone.utc), "/a?b=c", 1, 0, 'curl \\"8\\"'),
    ),
    "common": (
        '10.0.0.1 - - [01/Jan/2026:00:00:00 +0000] "POST / HTTP/2" 200 12',
        Hit("10.0.0.1", datetime(2026, 1, 1, tzinfo=timezone.utc), "/", 0, 12, ""),
    ),
    "no request": (
        '10.0.0.1 - - [01/Jan/2026:00:00:00 +0000] "\\x16\\x03" 400 0 "-" "-" 0.001',
        Hit("10.0.0.1", datetime(2026, 1, 1, tzinfo=timezone.utc), "\\x16\\x03", 1, 0, "-"),
    ),
}


@pytest.mark.parametrize("case", LINES)
def test_lines(case: str) -> None:
    line, hit = LINES[case]
    assert hit_of(line) == hit


@pytest.mark.parametrize(
    "line",
    [
        "",
        "this line was cut o",
        '10.0.0.1 - - [01/Foo/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 12',
        '10.0.0.1 - - [32/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 12',
    ],
)
def test_lines_of_no_format(line: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        hit_of(line)
