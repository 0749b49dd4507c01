"""Samples of tasks: their counts add up, whatever tasks begin again, are missing or are more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engine.deployment.description import OperatorStatistics, TaskStatistics
from engine.graph.assembly import logical_graph
from engine.graph.chaining import chain
from engine.graph.execution import ExecutionGraph, expand
from engine.history.sample import Samples
from engine.network import LatencyHistogram
from operators import source
from operators.sinks import Collect
from operators.sources import Collection

PIPELINE = source(Collection([1])).map(str).rebalance().sink(Collect())


def graph(parallelism: int) -> ExecutionGraph:
    return expand(chain(logical_graph(PIPELINE), parallelism))


def tasks(graph: ExecutionGraph, *counts: int, elapsed: float = 1.0) -> list[TaskStatistics]:
    return [
        TaskStatistics(
            vertex=each.job_vertex.name,
            index=each.index,
            operators=tuple(
                OperatorStatistics(operator.name, count, count)
                for operator in each.job_vertex.operators
            ),
            elapsed_seconds=elapsed,
            busy_seconds=elapsed / 4,
            waiting_seconds=0.0,
            idle_seconds=elapsed / 2,
            blocked_seconds=elapsed / 4,
            source_window=None,
            sink_window=None,
            latency=None,
            backlog_bytes=count,
        )
        for each, count in zip(graph.vertices, counts, strict=True)
    ]


def samples(found: Samples, *snapshots: list[TaskStatistics]) -> list[dict[str, Any]]:
    records = (found.records(each, float(t)) for t, each in enumerate(snapshots, 1))
    return [record for of_one in records for record in of_one]


def test_counts_are_those_of_a_second_and_shares_of_its_time() -> None:
    one = graph(2)
    found = samples(
        Samples(one),
        tasks(one, 5, 3, 4, 4),
        tasks(one, 6, 5, 7, 7, elapsed=2.0),
        tasks(one, 6, 5, 7, 7),
    )
    first, _, second, by_task, third, _ = found
    assert first["in"] == first["out"] == [8, 8, 8]
    assert second["in"] == [3, 3, 6]
    assert (second["busy"], second["idle"], second["blocked"]) == ([250] * 2, [500] * 2, [250] * 2)
    assert "waiting" not in second
    assert by_task["out"] == [1, 2, 3, 3]
    assert by_task["backlog_bytes"] == [6, 5, 7, 7]
    assert "in" not in third
    assert third["seconds"] == 1.0


def test_what_is_done_again_is_not_counted_twice() -> None:
    one, two = graph(1), graph(2)
    before = Samples(one)
    found = samples(before, tasks(one, 100, 90), tasks(one, 80, 80), tasks(one, 120, 110))
    missing = samples(before, tasks(one, 0, 130)[1:], tasks(one, 140, 135))
    after = Samples(two, before.counted)
    found += missing + samples(after, tasks(two, 100, 30, 60, 70), tasks(two, 150, 50, 100, 100))
    sums = [sum(each["in"][at] for each in found if len(each.get("in", ())) == 3) for at in (0, 2)]
    assert sums == [200, 200]
    assert samples(Samples(one), []) == []


def test_of_many_tasks_there_is_less_often_a_record() -> None:
    many = graph(96)
    found = Samples(many)
    kinds = [each["kind"] for each in samples(found, *[tasks(many, *[1] * 192)] * 6)]
    assert (kinds.count("sample"), kinds.count("tasks")) == (6, 2)


def test_the_last_has_all_that_tasks_have_counted() -> None:
    many = graph(96)
    found = Samples(many)
    records = list(found.records(tasks(many, *[1] * 192), 1.0))
    records += found.records(tasks(many, *[5] * 192), 1.1, is_last=True)
    by_task = [each for each in records if each["kind"] == "tasks"]
    assert sum(each["out"][7] for each in by_task) == 5


def test_latencies_are_of_the_tasks_at_which_records_end() -> None:
    two = graph(2)
    one, other = LatencyHistogram(), LatencyHistogram()
    for milliseconds in (1, 1, 3):
        one.record(int(milliseconds * 1e6))
    other.record(int(100e9))
    ahead, *rest = tasks(two, 4, 4, 4, 4)
    rest[1:] = [
        replace(each, latency=histogram.to_bytes())
        for each, histogram in zip(rest[1:], (one, other), strict=True)
    ]
    kept = replace(rest[1].operators[0], checkpointed_keys=7, oldest_key_ms=5499.0)
    rest[1] = replace(rest[1], operators=(kept,))
    snapshot = [ahead, *rest]
    found = Samples(two)
    latencies, sample, _ = found.records(snapshot, 1.0)
    (of_sinks,) = latencies["of"]
    assert of_sinks["vertex"] == 1
    assert [count for _, count in of_sinks["counts"]] == [2, 1, 1]
    assert of_sinks["counts"][-1] == [None, 1]
    assert of_sinks["tasks"][0] == [3, *of_sinks["tasks"][0][1:]]
    assert of_sinks["tasks"][1][0] == 1
    assert sample["latency"][0] == 4
    assert sample["checkpointed_keys"] == [0, 0, 7]
    assert sample["oldest_key_ms"] == [0, 0, 5000]
    kinds = [[each["kind"] for each in found.records(snapshot, t)] for t in (2.0, 7.0)]
    assert kinds == [["sample", "tasks"], ["latencies", "sample", "tasks"]]
    first, *_ = found.records(snapshot, 7.1, is_last=True)
    assert first["kind"] == "latencies"


def test_behind_a_rescale_rates_are_of_the_time_since() -> None:
    two = graph(2)
    first, by_task = Samples(two, begins=100.0).records(tasks(two, 10, 10, 10, 10), 102.0)
    assert (first["seconds"], by_task["seconds"]) == (2.0, 2.0)
