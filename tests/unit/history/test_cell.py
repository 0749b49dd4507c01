"""A history as a notebook shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.history.cell import page, page_of
from engine.history.process import this_process
from engine.history.reading import JobHistory
from engine.history.retention import encoded

PLAN: dict[str, Any] = {
    "kind": "plan",
    "t": 0.0,
    "operators": [{"id": 0, "name": "words"}, {"id": 1, "name": "<script>slow</script>\x1b[2J"}],
    "vertices": [
        {"name": "words", "operators": [0], "parallelism": 2, "resources": {}},
        {"name": "slow", "operators": [1], "parallelism": 1, "resources": {}},
    ],
    "edges": [{"source": 0, "target": 1, "partitioner": "rebalance"}],
}
SAMPLE = {
    "kind": "sample",
    "t": 9.0,
    "seconds": 2.0,
    "in": [0, 800],
    "out": [900, 800],
    "busy": [200, 990],
    "blocked": [800, 0],
}


def history(*more: dict[str, Any]) -> JobHistory:
    found = JobHistory(Path("job.oka"))
    job = {"kind": "job", "t": 0.0, "name": "<words>", "since": 0.0, "process": this_process()}
    found.add(map(encoded, (job, *more)))
    return found


def test_it_has_rates_and_marks_the_operator_that_others_wait_for() -> None:
    shown = page(history(PLAN, SAMPLE))
    assert "<b>job &#x27;&lt;words&gt;&#x27;: running" in shown
    assert "backpressure: 80% blocked by slow" in shown
    assert "<script>" not in shown
    assert "\x1b" not in shown
    _, others, slow, *_ = shown.split("<tr")
    assert "color" not in others
    assert "color" in slow or "color" in shown.split("<tr")[3]
    assert ">400</td>" in shown  # a second


def test_counts_go_on_when_it_is_shown_anew_also_with_another_order_of_operators() -> None:
    found = history(PLAN, SAMPLE)
    assert found.operators()[0] == {"in": 0, "out": 900}
    assert found.operators()[0] == {"in": 0, "out": 900}
    turned = {**PLAN, "t": 10.0, "vertices": PLAN["vertices"][::-1]}
    found.add(map(encoded, (turned, {**SAMPLE, "in": [7, 0], "out": [7, 100]})))
    assert found.operators() == {0: {"in": 0, "out": 1000}, 1: {"in": 807, "out": 807}}
    assert ">1,000</td>" in page(found)


def test_it_has_checkpoints_events_and_the_error_of_a_failed_job() -> None:
    checkpoint = {"kind": "checkpoint", "t": 5.0, "epoch": 3, "began": 4.0, "stored": 5.0}
    warning = {"kind": "event", "t": 6.0, "event": "warning", "text": "<i>late</i>"}
    error = {"type": "OperatorError", "operator": "slow", "task": "slow[0]", "record": "'<img>'"}
    error |= {"message": "ValueError: <b>", "traceback": '  Cell In[3], line 2\n    f("<a>")'}
    end = {"kind": "end", "t": 9.5, "state": "failed", "error": error}
    shown = page(history(PLAN, SAMPLE, checkpoint, warning, end))
    assert "checkpoints: 1 stored, the last (3) in 1 s" in shown
    assert "&lt;i&gt;late&lt;/i&gt;" in shown
    assert "failed on record &#x27;&lt;img&gt;&#x27;: ValueError: &lt;b&gt;" in shown
    assert "Cell In[3], line 2\n    f(&quot;&lt;a&gt;&quot;)</pre>" in shown


def test_a_job_that_has_just_begun_has_its_state() -> None:
    assert page(history()).startswith("<div><b>job &#x27;&lt;words&gt;&#x27;: running, began ")
    assert "<table" not in page(history())


def test_a_file_that_is_none_has_no_page(tmp_path: Path) -> None:
    assert page_of(None) is None
    assert page_of(tmp_path / "none.oka") is None
    (tmp_path / "other.oka").write_text("something else")
    assert page_of(tmp_path / "other.oka") is None
