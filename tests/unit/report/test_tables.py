"""The table of a result tells nothing that its job was too short for."""

from dataclasses import replace

import pytest

from engine.config import JobConfig
from engine.network import LatencyHistogram
from engine.report.result import JobResult
from engine.report.statistics import JobStatistics, Latency, OperatorSummary
from engine.report.tables import cost, percentiles, table, throughput
from engine.units import counted, duration, rate, three_digits

NOTHING = JobStatistics.of([])


def latency(markers: int) -> Latency:
    histogram = LatencyHistogram()
    for number in range(markers):
        histogram.record(1_000_000 + number)
    return Latency.of(histogram)


def shown(**changes: object) -> str:
    statistics = replace(NOTHING, **changes)  # type: ignore[arg-type]
    return str(JobResult(JobConfig(), 2.0, statistics, {}))


@pytest.mark.parametrize(
    ("seconds", "records", "told"),
    [
        (11.17, 10, "11.2 s in all"),
        (0.0041, 0, "4.1 ms in all"),
        (0.5, 1000, "0.5 s per thousand records (500 ms in all)"),
        (2.5, 10_000_000, "0.25 s per million records (2.5 s in all)"),
    ],
)
def test_cost_is_told_of_no_more_records_than_there_were(
    seconds: float, records: int, told: str
) -> None:
    assert cost(seconds, records) == told


@pytest.mark.parametrize(
    ("markers", "names"),
    [
        (2, ["p50", "max"]),
        (20, ["p50", "p95", "max"]),
        (100, ["p50", "p95", "p99", "max"]),
        (1000, ["p50", "p95", "p99", "p99.9", "max"]),
    ],
)
def test_a_percentile_needs_a_marker_beyond_it(markers: int, names: list[str]) -> None:
    text = percentiles(latency(markers))
    assert [part.split()[0] for part in text.partition(" (")[0].split(", ")] == names
    assert text.endswith(f"({markers:,} markers)")


def test_one_marker_has_no_percentiles() -> None:
    assert percentiles(latency(1)) == "1 ms (1 marker)"


def test_a_rate_of_a_few_milliseconds_is_none() -> None:
    short = replace(NOTHING, records=10, throughput=29_800.0, window_seconds=0.000335)
    assert throughput(short) == "all within 335 µs: too short for a rate"
    assert throughput(replace(short, window_seconds=2.0)).startswith("29.8k records/s over 2 s")


def test_the_table_of_a_job_without_records_and_without_a_name() -> None:
    text = shown(cpu_seconds=0.1)
    assert text.splitlines()[0].strip() == "job"
    assert "throughput" not in text
    assert "million" not in text
    assert "waiting" in text


def test_records_that_failed_are_shown_as_they_are() -> None:
    failed = replace(
        OperatorSummary("parse[/i]", "parse", 1, 3, 1, 0.0, 0.0, 0.0, 0.0),
        errors=2,
        first_error="ValueError: no number on '[/red] :smile:'",
    )
    text = shown(operators=(failed,))
    assert "parse[/i]: 2 records, such as ValueError: no number on '[/red] :smile:'" in text


def test_units() -> None:
    assert [rate(each) for each in (0, 0.333, 999.4, 999.9, 999_600, 12.3e12)] == [
        *("0", "0.333", "999", "1k", "1M", "12,300G")
    ]
    assert [duration(each) for each in (0, 999.7, 1234.0, 999_700, 59e6, 1234e6)] == [
        *("0 µs", "1 ms", "1.23 ms", "1 s", "59 s", "20.6 min")
    ]
    assert [duration(each) for each in (9000e6, 172_800e6, 1.8e15)] == [
        *("2.5 h", "2 days", "57 years")
    ]
    assert [counted(number, "task") for number in (0, 1, 1200)] == [
        "0 tasks",
        "1 task",
        "1,200 tasks",
    ]
    assert [three_digits(each) for each in (0.0604, 999.4, 999.9, 12345)] == [
        *("0.0604", "999", "1,000", "12,345")
    ]


ROWS = [
    ("multiprocessing_pipe", "lists", "32", "1000", "11,400,000 or so", "0.138 or so"),
    ("ray_actor_calls", "lists", "32", "10", "1,250,000", "1.464"),
]
COLUMNS = ("system", "api", "bytes", "batch", "words/s", "CPU s/M")


def lines_at(columns: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    return [line.strip() for line in table(COLUMNS, ROWS, keys=4).splitlines() if line.strip()]


def test_a_table_that_fits_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    first, rule, *rows = lines_at(100, monkeypatch)
    assert first.split() == ["system", "api", "bytes", "batch", "words/s", "CPU", "s/M"]
    assert set(rule) == {"─"}
    assert [row.split() for row in rows] == [" ".join(row).split() for row in ROWS]


def test_a_wider_one_tells_what_rows_share_and_goes_on_below(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared, *parts = lines_at(60, monkeypatch)
    assert shared == "in every row: api lists, bytes 32"
    assert [part.split() for part in parts if "─" not in part] == [
        ["system", "batch", "words/s"],
        ["multiprocessing_pipe", "1000", "11,400,000", "or", "so"],
        ["ray_actor_calls", "10", "1,250,000"],
        ["system", "batch", "CPU", "s/M"],
        ["multiprocessing_pipe", "1000", "0.138", "or", "so"],
        ["ray_actor_calls", "10", "1.464"],
    ]


def test_nothing_is_cut_in_a_narrow_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    name = "an operator whose name is rather long, as names may be"
    operator = OperatorSummary(name, name, 2, 10**9, 10**9, 0.25, 0.25, 0.25, 0.25)
    text = shown(operators=(operator,), records=10, latency=latency(5000))
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("1,000,000,000") == 2
    assert "an operator whose name is" in text
    assert "…" not in text
