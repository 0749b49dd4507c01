from __future__ import annotations

from pathlib import Path

import pytest

import engine
from benchmarks.measurement import Run
from benchmarks.nexmark import sql
from benchmarks.nexmark.systems import (
    FLINK,
    FLINK_SQL,
    OKA,
    PYTHON_PEERS,
    PYTHON_QUERIES,
    QueryCase,
    Systems,
    run_pyflink,
    run_python,
)
from engine.network import LatencyHistogram
from operators.sinks import Collect
from pipelines.nexmark.events import Events
from pipelines.nexmark.queries import query
from pipelines.nexmark.source import Api, Tables
from tests.nexmark import Oracle, in_order, rows_of

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.mark.table(2)
@pytest.mark.parametrize("transport", ["shm", "tcp"])
@pytest.mark.parametrize(("name", "api"), [("q5", "columnar"), ("q7", "per_record")])
def test_processes_answer_as_the_oracle(
    name: str, api: Api, transport: str, tmp_path: Path
) -> None:
    events = Events(30_000, rate=1000, disorder=20).write(tmp_path)
    pipeline = query(name).of(Tables(events, api)).sink(Collect())
    settings = {"parallelism": 2, "transport": transport, "progress": "none"}
    result = engine.execute(pipeline, **settings)
    assert rows_of(result) == Oracle(events).answer(name)


@pytest.mark.timeout(900)
def test_flink_answers_as_many_rows(tmp_path: Path) -> None:
    if missing := FLINK_SQL.missing():
        pytest.skip(missing)
    measure = Systems(Events(30_000, rate=1000, disorder=20).write(tmp_path)).measure
    for system, api in ((OKA, "per_record"), (FLINK, "sql")):
        case = QueryCase(system, api, "local", "shm", 100, 1000, 2, query="q5")
        measured = measure(case, Run(0.0, 0.0, None, 0))
        assert measured.throughput > 0
        assert measured.cpu_seconds_per_million > 0


@pytest.mark.timeout(900)
@pytest.mark.parametrize("query", PYTHON_QUERIES)
@pytest.mark.parametrize("system", ["bytewax", "pathway"])
def test_python_peers_answer_as_the_oracle(system: str, query: str, tmp_path: Path) -> None:
    if missing := PYTHON_PEERS[system].missing():
        pytest.skip(missing)
    events = Events(30_000, rate=1000, disorder=20).write(tmp_path)
    case = QueryCase(system, "", "own", "own", 100, 100, 1, query=query)
    found = run_python(case, events, with_rows=True)
    expected = Oracle(events).answer(query)
    assert in_order(found.answer or []) == expected
    assert found.rows == len(expected)
    assert found.seconds > 0
    assert found.cpu_seconds > 0


@pytest.mark.timeout(900)
@pytest.mark.parametrize("query", sql.PYTHON_QUERIES)
def test_pyflink_answers_as_many_rows(query: str, tmp_path: Path) -> None:
    if missing := PYTHON_PEERS["pyflink"].missing():
        pytest.skip(missing)
    events = Events(30_000, rate=1000, disorder=20).write(tmp_path)
    case = QueryCase("pyflink", "table", "own", "own", 100, 1000, 1, query=query)
    found = run_pyflink(case, events)
    assert found.rows == len(Oracle(events).answer(query))
    assert found.seconds > 0
    assert found.cpu_seconds > 0


@pytest.mark.parametrize(("query", "api"), [("q7", "columnar"), ("q8", "per_record")])
def test_windows_have_latencies_at_a_rate(query: str, api: Api, tmp_path: Path) -> None:
    # A window is a third of a second: some end behind the half that is left out.
    events = Events(60_000, rate=1000, disorder=20).write(tmp_path)
    case = QueryCase(OKA, api, "local", "shm", 100, 100, 1, query=query)
    measured = Systems(events).measure(case, Run(0.0, 0.0, 30_000.0, 0))
    assert LatencyHistogram.from_bytes(measured.histogram).count >= 1
