"""What is exposed of a job, out of its samples."""

from __future__ import annotations

import re
from typing import Any

import pytest

from engine.config import JobConfig
from engine.deployment.description import OperatorStatistics, TaskStatistics
from engine.metric.declared import declared
from engine.metric.metrics import SHARED
from engine.monitoring.families import Exposition, all_families
from engine.report.samples import Sample
from tests.unit.monitoring.tasks import task

DECLARED = [
    (kind, name, metric)
    for kind in (OperatorStatistics, TaskStatistics)
    for name, metric in declared(kind).items()
]


def exposed(*samples: tuple[TaskStatistics, ...], **settings: Any) -> dict[str, list[Any]]:
    """The values behind these samples, by name: labels without the job's, and the value."""
    exposition = Exposition(JobConfig(**settings))
    for tasks in samples:
        exposition.take(Sample(0.0, tasks))
        exposition.families()
    return {
        family.name: [
            ({key: each for key, each in labels.items() if key != "job"}, value)
            for labels, value in family.values
        ]
        for family in exposition.families()
    }


@pytest.mark.parametrize(("kind", "name", "metric"), DECLARED)
def test_every_metric_is_exposed_in_base_units_with_a_help(
    kind: type, name: str, metric: Any
) -> None:
    values = {name: 7, "name": "sink", "records_in": 7, "records_out": 7}
    if kind is OperatorStatistics:
        one = task("sink", operators=(OperatorStatistics(**values),))  # type: ignore[arg-type]
    else:
        plain = task("sink").__dict__ | {name: {"200": 7} if metric.by == "code" else 7}
        one = TaskStatistics(**plain)
    found = exposed((one,))[metric.exposed]
    scale, ending = {
        "µs": (1e-6, "_seconds"),
        "ms": (1e-3, "_seconds"),
        "s": (1, "_seconds"),
        "byte": (1, "_bytes"),
    }.get(metric.unit, (1, ""))
    assert any(value == pytest.approx(7 * scale) for _, value in found)
    assert ending in metric.exposed.removesuffix("_total")
    assert re.fullmatch(r"oka_[a-z_]+", metric.exposed)
    assert bool(metric.labels) == (metric.exposed in SHARED)


def test_names_and_labels_stay() -> None:
    """Dashboards of others use them."""
    families = {each.name: each for each in all_families()}
    assert families.keys() >= {
        "oka_channel_backlog_bytes",
        "oka_channel_reconnects_total",
        "oka_checkpoint_duration_seconds",
        "oka_checkpoint_size_bytes",
        "oka_http_requests_total",
        "oka_latency_seconds",
        "oka_model_version",
        "oka_source_lag_records",
        "oka_task_blocked_seconds_total",
        "oka_task_busy_seconds_total",
        "oka_task_idle_seconds_total",
    }
    assert families["oka_task_busy_seconds_total"].labels == ("job", "vertex", "task")
    assert families["oka_operator_late_records_total"].labels == (
        *("job", "vertex", "operator", "task"),
    )
    assert families["oka_http_requests_total"].labels == ("job", "vertex", "task", "end")
    for family in families.values():
        assert (family.kind == "counter") == family.name.endswith("_total")
        assert family.help.endswith(".")


def test_counts_of_a_mapping_have_a_label_each_and_stay() -> None:
    counts: list[dict[str, int]] = [{}, {"200": 5}, {"200": 6, "404": 1}, {"200": 2}]
    samples = [(task("http", 0, responses=each), task("http", 1)) for each in counts]
    assert "oka_http_responses_total" not in exposed(samples[0])
    found = exposed(*samples)["oka_http_responses_total"]
    told = [(labels["code"], labels["task"], value) for labels, value in found]
    assert told == [("200", "0", 6), ("200", "1", 0), ("404", "0", 1), ("404", "1", 0)]


def test_a_job_that_has_not_started_tells_of_itself() -> None:
    found = exposed((), name="orders")
    assert found["oka_job_info"][0][0].keys() == {"runtime", "version"}
    assert found["oka_job_tasks"] == [({}, 0)]
    assert found["oka_job_restarts_total"] == [({}, 0)]
    assert "oka_task_busy_seconds_total" not in found


def test_tasks_that_are_gone_vanish() -> None:
    four = tuple(task(index=index, parallelism=4, latencies_ms=(1,)) for index in range(4))
    two = tuple(task(index=index, parallelism=2, latencies_ms=(1,)) for index in range(2))
    found = exposed(four, (), two)
    assert [labels["task"] for labels, _ in found["oka_task_busy_seconds_total"]] == ["0", "1"]
    assert sum(found["oka_latency_seconds"][0][1].counts) == 6  # what they observed stays


def test_what_never_was_is_not_there_and_then_it_stays() -> None:
    quiet, refusing = task("http"), task("http", requests_refused=2)
    assert "oka_http_requests_total" not in exposed((quiet,))
    for samples in ((refusing,), (refusing, quiet)):
        found = exposed(*((each, task("other")) for each in samples))
        ends = {labels["end"]: value for labels, value in found["oka_http_requests_total"]}
        assert ends == {"answered": 0, "expired": 0, "disconnected": 0, "refused": 2}
        assert {each["vertex"] for each, _ in found["oka_http_requests_total"]} == {"http"}


def test_counters_of_the_job_go_on_over_drivers_that_rescale_it() -> None:
    counts = [(2, 5), (2, 6), (0, 0), (1, 1)]
    samples = [(task(restarts=some, checkpoints=many),) for some, many in counts]
    found = exposed(samples[0], samples[1], (), *samples[2:])
    assert found["oka_job_restarts_total"] == [({}, 3)]
    assert found["oka_job_checkpoints_total"] == [({}, 7)]


def test_a_resumed_job_begins_at_0_and_a_new_one_with_its_counts() -> None:
    samples = [(task(elapsed=seconds, records=90 + 10 * seconds),) for seconds in (1, 2)]
    resumed = exposed(*samples, checkpoints="there", resume="latest")
    assert [value for _, value in resumed["oka_operator_records_out_total"]] == [10, 10]
    assert [value for _, value in exposed(*samples)["oka_operator_records_out_total"]] == [110] * 2
