"""The line of a running job fits its terminal, and leaves no rows behind when that is resized."""

import re
from dataclasses import replace

import pytest
from rich.cells import cell_len

from engine.report.statistics import JobStatistics, OperatorSummary
from engine.report.status_line import RenewedLine, status
from tests.unit.report.test_tables import latency

BUSY = replace(
    JobStatistics.of([]),
    elapsed_seconds=12.0,
    records=12_345_678,
    latency=latency(1000),
    bottleneck="a map with a name that is longer than most",
    operators=(OperatorSummary("words", "words", 1, 0, 100, 0.1, 0.0, 0.85, 0.05),),
    reconnects=2,
)


def line(columns: int, statistics: JobStatistics = BUSY) -> str:
    return status(statistics, 1.23e6, 4.56e6, columns)


def test_all_of_it_where_there_is_room() -> None:
    assert line(200) == (
        "  12 s  1.23M records/s  (sources 4.56M)  p99 1 ms  12,345,678 records  reconnects: 2  "
        "backpressure: 85% blocked by a map with a name that is longer than most"
    )


def test_records_that_failed_are_counted() -> None:
    failed = replace(BUSY.operators[0], errors=1200)
    assert "reconnects: 2  errors: 1,200  " in line(200, replace(BUSY, operators=(failed,)))
    late = replace(BUSY.operators[0], late=34)
    assert "reconnects: 2  late: 34  " in line(200, replace(BUSY, operators=(late,)))


def test_how_much_runs_natively_is_told() -> None:
    (other,) = BUSY.operators
    native = replace(other, records_in=200, native=150)
    given = replace(BUSY, operators=(other, native))
    assert "reconnects: 2  native: 75%  " in line(200, given)
    given = replace(BUSY, operators=(native, replace(native, native=0, fallbacks=1)))
    assert "reconnects: 2  native: 38% (1 fallback)  " in line(200, given)
    assert "native" not in line(100, given)


def test_what_matters_least_goes_first_then_the_name_is_cut() -> None:
    whole = line(200)
    assert line(len(whole)) == whole
    without_sources = line(len(whole) - 1)
    assert without_sources == whole.replace("(sources 4.56M)  ", "")
    without_records = line(len(without_sources) - 1)
    assert without_records == without_sources.replace("12,345,678 records  ", "")
    assert line(79) == (
        "  12 s  1.23M records/s  p99 1 ms  reconnects: 2  backpressure: 85% blocked by…"
    )


@pytest.mark.parametrize("columns", [0, 1, 10, 39, 79, 80, 119, 300])
@pytest.mark.parametrize("name", ["count", "数える" * 30])
def test_it_is_never_wider_than_the_terminal(columns: int, name: str) -> None:
    assert cell_len(line(columns, replace(BUSY, bottleneck=name))) <= columns


def test_without_enough_markers_there_is_no_p99() -> None:
    assert "max 1 ms" in line(200, replace(BUSY, latency=latency(99)))
    none = line(200, replace(BUSY, latency=latency(0)))
    assert "p99" not in none
    assert "max" not in none


def test_a_line_is_written_over_the_one_before() -> None:
    renewed = RenewedLine()
    assert renewed.renewed("a" * 100, 120) == f"\r{'a' * 100}\x1b[J"
    assert renewed.renewed("b" * 100, 120) == f"\r{'b' * 100}\x1b[J"


def test_the_rows_that_a_narrower_terminal_made_of_it_are_written_over() -> None:
    renewed = RenewedLine()
    renewed.renewed("a" * 100, 120)
    assert renewed.renewed("b" * 100, 40) == f"\x1b[2A\r{'b' * 38}…\x1b[J"
    assert renewed.renewed("", 40) == "\r\x1b[J"
    assert renewed.renewed("", 40) == "\r\x1b[J"


def test_a_name_cannot_move_the_cursor() -> None:
    shown = RenewedLine().renewed("up\x1b[1A and\ndown", 80)
    assert re.sub(r"\r|\x1b\[J$", "", shown) == "up?[1A and?down"
