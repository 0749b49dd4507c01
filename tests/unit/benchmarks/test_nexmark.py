"""`oka bench nexmark` over few events: rows, ratios, a figure, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

import engine
from benchmarks import plots
from benchmarks.measurement import Measurement, Run
from benchmarks.nexmark import command as nexmark
from benchmarks.nexmark import sql, systems
from benchmarks.nexmark.latency import behind
from benchmarks.nexmark.systems import FLINK, OKA, PYTHON_PEERS, Found, QueryCase, Systems
from benchmarks.peers.jvm import JvmPeer
from benchmarks.peers.peer import Peer
from benchmarks.schema import results_file
from engine.network import LatencyHistogram
from pipelines.nexmark.events import COLUMNS, Events
from pipelines.nexmark.queries import QUERIES

EVENTS = Events(1000)
RUN = Run(0.0, 0.0, None, 0)


def case(query: str, system: str = OKA, api: str = "columnar") -> QueryCase:
    return QueryCase(system, api, "local", "shm", 100, 100, 1, query=query)


@pytest.fixture
def flink(monkeypatch: pytest.MonkeyPatch) -> dict[str, Found]:
    """What Flink finds, by query, in place of a JVM; it alone is there."""
    found: dict[str, Found] = {}
    run = {**systems._SYSTEMS, FLINK: lambda case, _: found[case.query]}
    monkeypatch.setattr(systems, "_SYSTEMS", run)
    monkeypatch.setattr(Peer, "missing", lambda _: "it is not here")
    monkeypatch.setattr(
        *(JvmPeer, "missing"),
        lambda peer: None if peer.system == FLINK else "it is not here",
    )
    return found


def bench(*arguments: object) -> Any:
    arguments = ("--events", 2000, "--repeats", 1, *arguments)
    return CliRunner().invoke(nexmark.command, [*map(str, arguments)])


def test_every_way_of_a_query_is_a_row_and_a_bar(tmp_path: Path, flink: dict[str, Found]) -> None:
    flink |= {"q0": Found(2.0, 4.0, 1840), "q11": Found(2.0, 4.0, 40)}
    file, folder = tmp_path / "nexmark.json", tmp_path / "events"
    arguments = ("--query", "q0", "--json", file, "--folder", folder)
    ended = bench(*arguments)
    assert ended.exit_code == 0, ended.output
    result = results_file.read(file)
    ways = [(row["query"], row["system"], row["api"]) for row in result["rows"]]
    expected = [("oka", "per_record"), ("oka", "columnar"), ("flink_java", "sql")]
    assert ways == [("q0", *way) for way in expected]
    oka, _, other = result["rows"]
    assert other["throughput"]["median"] == 1000
    assert other["cpu_seconds_per_million"]["median"] == 2000
    lines = ended.output.splitlines()
    ratio = oka["throughput"]["median"] / 1000
    assert any("per_record" in line and f"{ratio:.2f}" in line for line in lines)
    (drawing,) = plots.draw(result)
    assert drawing.name == "nexmark_4096_1"
    assert "q0 oka per_record" in drawing.alt
    panels = drawing.figure.axes
    assert [len(panel.patches) for panel in panels] == [3, 3]
    assert panels[0].get_xlabel() == "events/s"
    # What is finished is not measured again.
    assert "has 3 rows of these already" in bench(*arguments).output
    assert json.loads(file.read_text())["rows"] == result["rows"]
    refused = bench("--query", "q2", "--folder", "/proc/events")
    assert "its folder cannot be made" in str(refused.exception)
    other_events = bench("--query", "q0", "--disorder", 7, "--folder", folder)
    assert "has 2,000 events with disorder 1, expected 2,000 with 7" in str(other_events.exception)


def test_other_rows_than_those_of_another_system_are_a_failure(
    tmp_path: Path, flink: dict[str, Found]
) -> None:
    flink["q2"] = Found(1.0, 1.0, 5)
    file = tmp_path / "nexmark.json"
    ended = bench("--query", "q2", "--json", file)
    assert ended.exit_code != 0
    assert "q2 flink_java sql, parallelism 1 came to 5 rows, expected" in str(ended.exception)
    assert "failed" in ended.output
    # The others of the cell have their rows.
    assert [bool(row["throughput"]) for row in results_file.read(file)["rows"]] == [1, 1, 0]


def test_a_run_is_measured_in_events() -> None:
    measured = Systems(EVENTS).measure(case("q5"), RUN)
    assert measured.records == 1000
    assert measured.throughput > 0
    assert measured.cpu_seconds_per_million > 0


def test_late_records_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    # Whether a record that is behind the watermark is late depends on what has arrived by then.
    operator = SimpleNamespace(late=3)
    statistics = SimpleNamespace(operators=[operator, operator], elapsed_seconds=1.0)
    monkeypatch.setattr(engine, "execute", lambda *_, **__: SimpleNamespace(statistics=statistics))
    with pytest.raises(RuntimeError, match="q5 oka columnar, parallelism 1 left 6 records out"):
        Systems(EVENTS).measure(case("q5"), RUN)


def test_without_flink_oka_runs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JvmPeer, "missing", lambda _: "there is no java")
    monkeypatch.setattr(Peer, "missing", lambda peer: f"{peer.system} is not here")
    ended = bench("--query", "q1")
    assert ended.exit_code == 0
    assert "left out: there is no java; make peers-flink" in ended.output
    assert "left out: pathway is not here; make peers-pathway" in ended.output
    assert not any(name in ended.output.split("events/s")[-1] for name in ("flink", "pathway"))


def test_python_peers_run_in_turn_where_they_have_the_query(
    flink: dict[str, Found], monkeypatch: pytest.MonkeyPatch
) -> None:
    flink |= {"q0": Found(2.0, 4.0, 1840), "q1": Found(2.0, 4.0, 1840)}
    found = dict.fromkeys(PYTHON_PEERS, lambda *_: Found(4.0, 4.0, 1840))
    monkeypatch.setattr(systems, "_SYSTEMS", {**systems._SYSTEMS, **found})
    monkeypatch.setattr(Peer, "missing", lambda _: None)
    ended = bench("--query", "q0,q1", "--parallelism", "1,2")
    assert ended.exit_code == 0, ended.output
    lines = [line.split() for line in ended.output.splitlines()]
    ran = [(line[0], line[4]) for line in lines if line[1:2] == ["bytewax"]]
    assert ran == [("q1", "1")]  # it has no watermark of several sources
    pathway = [line for line in lines if line[1:2] == ["pathway"]]
    assert [(line[0], line[4]) for line in pathway] == [("q1", "1"), ("q1", "2")]
    assert all("0.50" in line for line in pathway)  # beside Flink


def test_a_query_with_checkpoints_is_compared_with_itself_without(tmp_path: Path) -> None:
    file = tmp_path / "nexmark.json"
    ended = bench("--query", "q5", "--no-peers", "--checkpoint-each", 0.05, "--json", file)
    assert ended.exit_code == 0, ended.output
    rows = results_file.read(file)["rows"]
    assert [(row["api"], row["interval_seconds"]) for row in rows] == [
        *(("per_record", None), ("per_record", 0.05), ("columnar", None), ("columnar", 0.05))
    ]
    without, with_them = (row["throughput"]["median"] for row in rows[:2])
    lines = [line.split() for line in ended.output.splitlines() if line.strip().startswith("q5 ")]
    assert f"{with_them / without:.2f}" in lines[1]
    assert [len(line) for line in lines] == [9, 12, 9, 12]
    (drawing,) = plots.draw(results_file.read(file))
    assert [len(panel.patches) for panel in drawing.figure.axes] == [2, 2]


def test_every_query_has_its_sql_and_every_column_its_type(tmp_path: Path) -> None:
    # Flink has no OVER on rows that change (q6), no two runs have the same windows by the machine's
    # clock (q12), and its table on the side is of a connector (q13).
    assert set(sql.QUERIES) == set(QUERIES) - {"q6", "q12", "q13"}
    statements = sql.statements(Events(1000, disorder=50).write(tmp_path))
    for (numbers, texts), statement in zip(COLUMNS.values(), statements, strict=True):
        assert all(f"{name} " in statement for name in (*numbers, *texts))
    # 50 bids are 55 events, and 50 more because times are rounded: 10 ms, and 2.
    assert "date_time - INTERVAL '0.012' SECOND" in statements[2]


def test_a_result_is_behind_the_last_source_that_passed_its_window() -> None:
    read = {
        ("person", 1): [(5, 0), (12, 600_000), (25, 900_000)],
        ("auction", 1): [(5, 0), (11, 700_000), (20, 950_000)],
    }
    came = [(10, 700_030), (10, 700_050), (20, 950_007), (30, 960_000)]
    # That of 30 came at the end of the input.
    assert behind(read, came) == [30, 7]
    # What ends in the first half second is left out.
    assert behind(read, [(5, 7), *came]) == [30, 7]


def test_windows_are_timed_at_half_of_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    offered: list[float] = []
    with_checkpoints: list[bool] = []

    def timed(
        _case: Any, _name: str, _events: Events, rate: float, settings: Mapping[str, Any]
    ) -> Any:
        offered.append(rate)
        with_checkpoints.append("checkpoints" in settings)
        histogram = LatencyHistogram()
        histogram.record(3_000_000)
        return Measurement(rate, 0.1, histogram.to_bytes(), 2000)

    monkeypatch.setattr(systems, "run_at_rate", timed)
    monkeypatch.setattr(nexmark, "LEAST_SECONDS", 0)
    ended = bench("--query", "q2,q7", "--no-peers", "--latency")
    assert ended.exit_code == 0, ended.output
    assert len(offered) == 2  # q2 has no windows
    assert sum(line.split()[-2:] == ["3.0", "3.0"] for line in ended.output.splitlines()) == 2
    ended = bench("--query", "q7", "--no-peers", "--latency", "--checkpoint-each", "60")
    assert ended.exit_code == 0, ended.output
    assert sorted(with_checkpoints[2:]) == [False, False, True, True]


def test_events_that_last_too_short_are_left_out_of_the_latency(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nexmark, "LEAST_SECONDS", 3600)
    ended = bench("--query", "q7", "--no-peers", "--latency")
    assert ended.exit_code == 0, ended.output
    told = [line for line in ended.stderr.splitlines() if line.startswith("left out: q7 oka")]
    assert len(told) == 2
    for line in told:
        assert "expected 3600 s: --events " in line
    assert "p50 ms" not in ended.output


def test_what_differs_from_the_benchmark_is_told_in_its_report() -> None:
    report = " ".join((Path(nexmark.__file__).parents[1] / "RESULTS.md").read_text().split())
    assert set(sql.DIFFERENCES) <= set(QUERIES)
    for query, difference in sql.DIFFERENCES.items():
        assert f"- `{query}`: {difference}." in report
