"""`oka bench event-time` over few records: rows, what the works come to, and what is refused."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import engine.testing
from benchmarks import plots
from benchmarks.event_time import command as event_time
from benchmarks.event_time.over import QUIX, Over
from benchmarks.event_time.patterns import PatternWork
from benchmarks.event_time.work import EventTimeWork, tuples
from benchmarks.measurement import Run
from benchmarks.schema import results_file
from benchmarks.works import OKA, WorkCase
from engine.graph.context import TaskContext
from tests.patterns import search

RECORDS = 3000


def cases(work: EventTimeWork) -> list[WorkCase]:
    return [case for case in work.cases(RECORDS, 1) if case.system == OKA]


def works_of(kind: type[EventTimeWork]) -> list[EventTimeWork]:
    return [work for work in event_time.WORKS.values() if isinstance(work, kind)]


@pytest.fixture
def dense(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few users, and times that leave some records of a user out of a span."""
    monkeypatch.setattr(QUIX.__class__, "missing", lambda _peer: "left out")
    for kind, users, step_ms in ((Over, 20, 60_000), (PatternWork, 50, 100)):
        monkeypatch.setattr(kind, "users", users)
        monkeypatch.setattr(kind, "step_ms", step_ms)


def by_user(work: EventTimeWork) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = defaultdict(list)
    for batch in tuples(str(work.file), TaskContext("test", 0, 1, 100, "test")):
        for record in batch:
            found[record[0]].append(record)
    return found


def sums(work: EventTimeWork, case: WorkCase) -> tuple[int, int]:
    (found,) = engine.testing.run(work.pipeline(case)).values()
    return sum(rows for rows, _ in found), sum(total for _, total in found)


@pytest.mark.usefixtures("dense")
@pytest.mark.parametrize("work", works_of(Over), ids=lambda work: work.name)
def test_spans_come_to_what_plain_python_adds_up(work: Over, tmp_path: Path) -> None:
    with work.prepared(RECORDS, tmp_path):
        span = work.hours * 3_600_000
        total = sum(
            each[3]
            for own in by_user(work).values()
            for record in own
            for each in own
            if record[1] - span <= each[1] <= record[1]
        )
        assert [sums(work, case) for case in cases(work)] == [(RECORDS, total)] * 2


@pytest.mark.usefixtures("dense")
@pytest.mark.parametrize("work", works_of(PatternWork), ids=lambda work: work.name)
def test_patterns_come_to_what_a_search_finds(work: PatternWork, tmp_path: Path) -> None:
    with work.prepared(RECORDS, tmp_path):
        found = [
            match for own in by_user(work).values() for match in search(work.stages, own, 60_000)
        ]
        amounts = sum(event[3] for match in found for _, event in match)
        assert len(found) > 10
        assert [sums(work, case) for case in cases(work)] == [(len(found), amounts)]


@pytest.mark.usefixtures("dense")
def test_another_sum_is_a_failure(tmp_path: Path) -> None:
    work = event_time.WORKS["pattern-then"]
    assert isinstance(work, EventTimeWork)
    with work.prepared(100, tmp_path):
        work.first = (0, -1, "another")
        with pytest.raises(RuntimeError, match=r"came to a sum of [\d,]+, expected -1 as of anoth"):
            work.measure(cases(work)[0], Run(0.0, 0.0, None, 0))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("work", ["over-1h", "pattern-repeated"])
def test_all_systems_that_are_here_come_to_the_same(work: str, tmp_path: Path) -> None:
    file = tmp_path / "event_time.json"
    arguments = ("--work", work, "--records", RECORDS, "--repeats", 1, "--json", file)
    ended = CliRunner().invoke(event_time.command, [*map(str, arguments)])
    assert ended.exit_code == 0, ended.output
    result = results_file.read(file)
    here = [peer.system for peer in event_time.WORKS[work].peers if not peer.missing()]
    ways = [OKA] * len(event_time.WORKS[work].apis)
    assert [row["system"] for row in result["rows"]] == [*ways, *here]
    assert all(row["throughput"]["median"] > 0 for row in result["rows"])
    (drawing,) = plots.draw(result)
    assert drawing.name == "event_time_1"
    assert f"{work} oka" in drawing.alt
