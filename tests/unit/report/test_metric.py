"""A metric is declared once, and is then in everything that tells of a job."""

import json
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import engine
from engine.config import JobConfig
from engine.deployment.description import TaskStatistics
from engine.metric.merged import in_json, merged, together
from engine.metric.metrics import METRICS, Metrics
from engine.report.progress import ProgressLine
from engine.report.result import JobResult
from engine.report.samples import Sample
from engine.report.statistics import JobStatistics
from engine.report.status_line import status
from engine.units import measure
from operators import source
from operators.sinks import Collect
from operators.sources import Collection

NOTHING = JobStatistics.of([])


def result(**metrics: float) -> JobResult:
    return JobResult(JobConfig(), 1.0, replace(NOTHING, **metrics), {})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_reaches_result_table_progress_and_json(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    metric = METRICS[name]
    value: Any = {"200": 7} if metric.merge == "each" else 7
    found = result(**{name: value})
    in_result = found.to_dict()
    assert in_result[metric.json or name] == value
    assert metric.help.endswith((".", "host."))
    told = metric.text.format(measure(value, metric.unit))
    rows = [line.split(maxsplit=1) for line in str(found).splitlines() if line.strip()]
    shown = any(row[0] == metric.row and told in row[1] for row in rows)
    assert shown == (metric.row is not None and metric.alone)
    line = status(found.statistics, 0.0, 0.0)
    assert (f"{metric.row}: 7" in line) == metric.progress

    lines: list[str] = []
    written = threading.Event()

    def write(text: str, *_: object, **__: object) -> bool:
        lines.append(text)
        written.set()
        return True

    monkeypatch.setattr("engine.console.write", write)
    monkeypatch.setattr(JobStatistics, "of", lambda *_tasks: found.statistics)
    progress = ProgressLine("json")
    progress.take(Sample(0.0, (SimpleNamespace(elapsed_seconds=1.0),)))  # type: ignore[arg-type]
    assert written.wait(60)
    progress.close()
    assert json.loads(lines[0])[metric.json or name] == value


def test_names_in_json_stay() -> None:
    names = set(result().to_dict())
    assert names >= {
        "clock_uncertainty_us",
        "cpu_seconds",
        "dropped_messages",
        "longest_interruption_ms",
        "max_worker_memory_bytes",
        "reconnects",
        "refused_connections",
    }
    assert len(in_json(Metrics())) == len(METRICS)


def test_a_job_has_the_metrics_of_its_tasks_merged() -> None:
    tasks = [
        ("words", Metrics(reconnects=2, memory_bytes=5, clock_uncertainty_us=20)),
        ("words", Metrics(reconnects=1, memory_bytes=9, clock_uncertainty_us=30)),
        ("sink", Metrics(memory_bytes=7, clock_uncertainty_us=40)),
    ]
    of_job = Metrics(**merged(tasks))
    assert of_job == Metrics(reconnects=3, memory_bytes=9, clock_uncertainty_us=70)
    assert Metrics(**merged([])) == Metrics()
    some = [("a", Metrics(responses=each)) for each in ({}, {"404": 1, "200": 2}, {"200": 3})]
    assert merged(some)["responses"] == {"200": 5, "404": 1}


def test_a_task_has_the_metrics_of_its_network_and_services_together() -> None:
    parts = [{"refused_connections": 2, "memory_bytes": 5}, {"refused_connections": 1}, {}]
    assert together(parts) == {"refused_connections": 3, "memory_bytes": 5}
    assert together([{"memory_bytes": 5}, {"memory_bytes": 4}]) == {"memory_bytes": 5}
    codes = [{"responses": {"200": 1}}, {"responses": {"200": 2, "500": 1}}]
    assert together(codes) == {"responses": {"200": 3, "500": 1}}


def test_what_went_over_channels_is_measured_at_both_ends() -> None:
    pipeline = source(Collection(range(1000))).rebalance().map(str).sink(Collect())
    statistics = engine.execute(pipeline, parallelism=2, progress="none").statistics
    assert statistics.sent_bytes == statistics.received_bytes > 1000
    assert statistics.input_backlog_bytes == statistics.retransmitted_frames == 0


def test_the_row_of_reconnects_is_as_it_was() -> None:
    text = str(result(reconnects=2, longest_interruption_ms=1500, refused_connections=1))
    rows = dict(line.split(maxsplit=1) for line in text.splitlines() if len(line.split()) > 1)
    assert rows["reconnects"].strip() == "2, longest interruption 1.5 s"
    assert rows["strangers"].strip() == "1 connection refused"
    assert issubclass(TaskStatistics, Metrics)
