"""Sessions of web logs: access logs, plain or gzip, become Parquet files of visits by day.

A session has all requests of one client (its address and browser) between pauses of half an hour.
The logs are in the combined format of Apache and nginx. Lines in another format are skipped, and
the job's result counts them.

Run it with `oka run pipelines/web_logs.py` over the logs that Oka ships, or over those of a server:
`oka run pipelines/web_logs.py paths='/var/log/nginx/access.log*' out=sessions`.
"""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import engine
from operators import Count, First, Last, Pipeline, Session, Stream, Sum, source
from operators.sinks import ByTime, ParquetSink
from operators.sources import TextFiles

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class Hit:
    """A request, as a log tells of it; `failed` is 1 for a status of 400 and more."""

    host: str
    time: datetime
    path: str
    failed: int
    bytes: int
    agent: str


def web_logs(
    paths: str | Path | Sequence[str | Path] | None = None,
    out: str = "sessions",
    pause_minutes: float = 30.0,
) -> Pipeline:
    """Sessions of the logs, the shipped ones by default, in `day=…` folders below `out`.

    `out` is a folder or `s3://bucket/prefix`. Files of an earlier run are replaced.
    """
    hits = source(TextFiles(LOGS if paths is None else paths)).map(hit_of, on_error="skip")
    rows = sessions(hits, timedelta(minutes=pause_minutes))
    return rows.sink(ParquetSink(out, schema(), partition_by=ByTime("start"), replace=True))


def sessions(hits: Stream[Hit], pause: timedelta) -> Stream[dict[str, Any]]:
    """A row for each session, when the event time has passed its end."""
    timed = hits.with_event_time("time", out_of_orderness=timedelta(minutes=1))
    windows = timed.key_by("host", "agent").window(Session(pause))
    found = windows.aggregate(
        requests=Count(),
        failed=Sum("failed"),
        bytes=Sum("bytes"),
        first_path=First("path"),
        last_path=Last("path"),
    )

    def row(session: tuple[tuple[str, str], dict[str, Any], datetime, datetime]) -> dict[str, Any]:
        (host, agent), values, start, end = session
        return {"host": host, "agent": agent, "start": start, "last": end - pause, **values}

    return found.map(row)


def schema() -> pa.Schema:
    """The columns of a session; `last` is the time of its last request."""
    import pyarrow as pa

    text, moment = pa.string(), pa.timestamp("us", "UTC")
    counts = dict.fromkeys(("requests", "failed", "bytes"), pa.int64())
    pages = {"first_path": text, "last_path": text}
    return pa.schema(
        {"host": text, "agent": text, "start": moment, "last": moment, **counts, **pages}
    )


def hit_of(line: str) -> Hit:
    """The request that a line tells of; ValueError for a line that is in no combined format."""
    found = COMBINED.fullmatch(line)
    if found is None:
        raise ValueError("the line is not in the combined format")
    host, moment, request, status, size, agent = found.groups()
    words = request.split(" ")  # what strangers send need not be a request
    path = words[1] if len(words) == 3 else request
    failed, sent = int(status) >= 400, 0 if size == "-" else int(size)
    return Hit(host, time_of(moment), path, int(failed), sent, agent or "")


@lru_cache(maxsize=4096)
def time_of(text: str) -> datetime:
    """`25/Nov/2026:07:00:00 +0100` as a moment of UTC, in any locale."""
    day, month, year = text[:11].split("/")
    at = f"{year}-{MONTHS.index(month) + 1:02}-{day}T{text[12:20]}{text[21:24]}:{text[24:26]}"
    return datetime.fromisoformat(at).astimezone(timezone.utc)


def sample_lines(day: datetime, visits: int, seed: int) -> Iterator[str]:
    """Lines of a made-up day, in the order of their times; some clients come more than once."""
    chance = random.Random(seed)
    hits: list[tuple[datetime, str]] = []
    for _ in range(visits):
        host = f"192.0.2.{chance.randrange(1, 120)}"
        agent = chance.choice(AGENTS)
        moment = day + timedelta(seconds=chance.randrange(24 * 3600))
        for _ in range(chance.randint(1, 20)):
            status = chance.choices([200, 304, 404, 500], [90, 5, 4, 1])[0]
            path = f"{chance.choice(PATHS)}?page={chance.randint(1, 30)}"
            told = f"{moment:%d}/{MONTHS[moment.month - 1]}/{moment:%Y:%H:%M:%S %z}"
            size = "-" if status == 304 else chance.randint(200, 40_000)
            hits.append(
                (moment, f'{host} - - [{told}] "GET {path} HTTP/1.1" {status} {size} "-" "{agent}"')
            )
            moment += timedelta(seconds=chance.randint(1, 600))
    yield from (line for _, line in sorted(hits))
    yield "this line was cut o"


def write_samples(folder: Path) -> None:
    """Write the logs that Oka ships, two days of them."""
    for number in range(2):
        day = datetime(2026, 11, 24 + number, tzinfo=timezone.utc)
        with gzip.GzipFile(folder / f"access-{day:%Y-%m-%d}.log.gz", "wb", mtime=0) as file:
            file.writelines(f"{line}\n".encode() for line in sample_lines(day, 300, number))


COMBINED = re.compile(
    r'(\S+) \S+ .*? \[([^\]]{26})\] "((?:[^"\\]|\\.)*)" (\d{3}) (\d+|-)'
    r'(?: "(?:[^"\\]|\\.)*" "((?:[^"\\]|\\.)*)".*)?'
)
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
PATHS = ("/", "/docs", "/docs/windows", "/download", "/blog", "/search")
AGENTS = ("Mozilla/5.0 (X11; Linux)", "Mozilla/5.0 (Macintosh)", "curl/8.5", 'a "quoted\\" one')
LOGS = Path(__file__).parent / "data" / "access-*.log.gz"

if __name__ == "__main__":
    print(engine.execute(web_logs(), parallelism=2, name="web logs"))
