"""What people see of streams, jobs and results where they look at them."""

from __future__ import annotations

import dataclasses
import pydoc
import threading
from html.parser import HTMLParser

import pytest

import engine
from engine.config import JobConfig
from engine.errors import JobCancelled, OperatorError
from engine.job import JobHandle
from engine.plan import Plan
from engine.testing.threads import ThreadLauncher
from operators import Stream, source
from operators.sinks import Collect, Counts
from operators.sources import Collection


def numbers() -> Stream[int]:
    return source(Collection([1, 2, 3])).map(abs)


GO = threading.Event()


def until_go(n: int) -> int:
    GO.wait(60)
    return n


def started(stream: Stream[int], name: str = "three") -> JobHandle:
    return JobHandle(Plan.of(stream.sink(Collect()), JobConfig(name=name)), ThreadLauncher())


def test_a_stream_shows_the_names_of_its_operators() -> None:
    stream = numbers()
    assert repr(stream) == "<Stream collection -> map>"
    assert (
        repr(stream.named("absolute").rebalance()) == "<Stream collection -> absolute -> rebalance>"
    )
    assert repr(stream.key_by()) == "<KeyedStream collection -> map -> hash by record>"
    counted = stream.key_by(0).count()
    assert repr(counted) == "<Stream collection -> map -> hash by 0 -> count>"
    pipeline = counted.sink(Counts())
    assert repr(pipeline) == "<Pipeline collection -> map -> hash by 0 -> count -> counts>"
    assert repr(numbers().key_by("a", "b")).endswith("hash by 'a', 'b'>")
    failed = numbers().map(abs, on_error="side").named("absolute").side("errors")
    assert repr(failed) == "<Stream collection -> map -> absolute -> side output errors>"


def test_a_stream_of_several_shows_where_they_come_together() -> None:
    left, right = numbers().named("left"), numbers().named("right")
    assert repr(left.union(right)) == "<Stream (left | right)>"
    assert repr(left.union(right).filter(bool)) == "<Stream (left | right) -> filter>"
    many = left
    for _ in range(200):
        many = many.union(right).map(abs)
    assert repr(many) == "<Stream (map | right) -> map>"


def cells_of(html: str | None) -> list[str]:
    page = Cells()
    page.feed(html or "")
    assert page.open == []
    return page.cells


def test_a_notebook_shows_operators_and_what_they_read() -> None:
    stream = numbers().named("<b>").key_by().count().with_parallelism(3)
    shown = [
        *("operator", "tasks", "reads", "runs"),
        "collection",
        *("<b>", "collection (forward)", "native"),
        *("count", "3", "<b> (hash by record)"),
    ]
    assert cells_of(stream._repr_html_()) == [*shown, "…", "count (forward)"]
    pipeline = stream.sink(Counts())
    assert cells_of(pipeline._repr_html_()) == [*shown, "counts", "count (forward)"]
    assert "…" in cells_of(numbers().key_by()._repr_html_())
    assert "…" in cells_of(numbers().key_by().latest()._repr_html_())


def test_a_stream_that_cannot_run_as_it_is_has_its_line_alone() -> None:
    assert numbers().map(abs, on_error="side")._repr_html_() is None


def test_many_operators_scroll() -> None:
    stream = numbers()
    for _ in range(200):
        stream = stream.map(abs)
    shown = stream._repr_html_()
    assert shown is not None
    assert "overflow: auto" in shown
    assert "map-200" in cells_of(shown)


def test_a_handle_shows_name_state_and_seconds() -> None:
    GO.clear()
    handle = started(numbers().map(until_go))
    assert repr(handle).startswith("<JobHandle of job 'three': running, ")
    GO.set()
    handle.wait_finished(timeout=300)
    assert repr(handle).startswith("<JobHandle of job 'three': finished, ")
    assert repr(handle) == repr(handle)  # the clock has stopped
    handle.wait_stopped()


@pytest.mark.parametrize("history", ["auto", "off"])
def test_a_notebook_shows_what_a_job_does_and_how_it_ended(history: str) -> None:
    GO.clear()
    config = JobConfig(name="<three>", history=history)
    stream = numbers().map(until_go).named("</table><script>")
    pipeline = stream.map(lambda n: n // (n - 2)).sink(Collect())
    handle = JobHandle(Plan.of(pipeline, config), ThreadLauncher())
    assert "job '<three>': running" in cells_of(handle._repr_html_())[0]
    GO.set()
    with pytest.raises(OperatorError):
        handle.wait_finished(timeout=300)
    handle.wait_stopped()
    shown = cells_of(handle._repr_html_())
    assert "job '<three>': failed" in shown[0]
    assert any("ZeroDivisionError" in text for text in shown)
    assert any("on record 2" in text for text in shown)
    if history == "auto":
        assert "</table><script>" in shown
        assert any("return" in text or "n // (n - 2)" in text for text in shown)


def test_a_handle_shows_how_a_job_ended() -> None:
    failing = started(numbers().map(lambda n: n // 0))
    with pytest.raises(OperatorError):
        failing.wait_finished(timeout=300)
    assert "failed, OperatorError, " in repr(failing)
    failing.wait_stopped()
    GO.clear()
    waiting = started(numbers().map(until_go))
    waiting.cancel()
    GO.set()
    with pytest.raises(JobCancelled):
        waiting.wait_finished(timeout=300)
    assert ": cancelled, " in repr(waiting)
    waiting.wait_stopped()


@pytest.fixture
def result() -> engine.JobResult:
    handle = started(numbers(), name="<three> & more")
    try:
        return handle.wait_finished(timeout=300)
    finally:
        handle.wait_stopped()


def test_a_result_is_a_line(result: engine.JobResult) -> None:
    assert repr(result).startswith("<JobResult of job '<three> & more': 3 records in ")
    assert "\n" not in repr(result)
    assert "histogram" not in repr(result.statistics)


class Cells(HTMLParser):
    """The texts of a page's table cells; fails where tags do not match."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.cells.append(data)


def test_a_notebook_shows_a_result_as_tables(result: engine.JobResult) -> None:
    page = Cells()
    page.feed(result._repr_html_())
    assert page.open == []
    assert page.cells[:3] == ["<three> & more", "records at the sinks", "3"]
    assert page.cells[-8:-6] == ["collect", "1"]
    assert {"operator", "busy", "collection", "map"} <= set(page.cells)


def test_help_explains_every_setting() -> None:
    shown = pydoc.plain(pydoc.render_doc(engine.JobConfig))
    for field in dataclasses.fields(JobConfig):
        assert f"\n |  {field.name}: " in shown, field.name
