"""Job statistics out of those of tasks."""

from engine.config import JobConfig
from engine.deployment.description import OperatorStatistics, TaskStatistics, Window
from engine.network import LatencyHistogram
from engine.report.result import JobResult
from engine.report.statistics import JobStatistics


def task(
    name: str,
    index: int,
    *,
    blocked: float = 0.0,
    waiting: float = 0.0,
    failures: int = 0,
    late: int = 0,
    source: Window | None = None,
    sink: Window | None = None,
    **metrics: float,
) -> TaskStatistics:
    histogram = LatencyHistogram()
    histogram.record_many([1_000_000], 3_000_000)
    return TaskStatistics(
        vertex=name,
        index=index,
        operators=(OperatorStatistics(name, 100, 100, failures, late=late),),
        elapsed_seconds=10.0,
        busy_seconds=10.0 - blocked - waiting,
        waiting_seconds=waiting,
        idle_seconds=0.0,
        blocked_seconds=blocked,
        source_window=source,
        sink_window=sink,
        latency=histogram.to_bytes() if sink else None,
        **{"cpu_seconds": 2.0, "memory_bytes": 1000 + index, **metrics},  # type: ignore[arg-type]
    )


def test_tasks_are_summed_up() -> None:
    second = 1_000_000_000
    statistics = JobStatistics.of(
        [
            task("words", 0, blocked=8.0, source=Window(0, 2 * second, 100, 100)),
            task("words", 1, blocked=6.0, source=Window(0, 2 * second, 100, 100)),
            task("slow", 0, sink=Window(0, 4 * second, 200, 100)),
        ]
    )
    assert statistics.records == 100
    assert statistics.source_records == 200
    assert statistics.throughput == 25.0
    assert statistics.input_throughput == 50.0
    assert statistics.source_throughput == 100.0
    assert statistics.cpu_seconds == 6.0
    assert statistics.memory_bytes == 1001
    assert statistics.bottleneck == "slow"
    assert statistics.latency.count == 1
    assert abs(statistics.latency.p50 - 2000) < 2.1
    assert [operator.blocked for operator in statistics.operators] == [0.7, 0.0]


def test_links_are_summed_up_along_a_records_way() -> None:
    statistics = JobStatistics.of(
        [
            task("words", 0, reconnects=2, longest_interruption_ms=1500, clock_uncertainty_us=20),
            task("words", 1, reconnects=1, longest_interruption_ms=500, clock_uncertainty_us=30),
            task("lengths", 0, clock_uncertainty_us=40),
            task("sink", 0),
        ]
    )
    assert (statistics.reconnects, statistics.longest_interruption_ms) == (3, 1500)
    assert statistics.clock_uncertainty_us == 70


def test_what_waits_for_a_service_holds_others_up_and_a_source_does_not() -> None:
    second = 1_000_000_000
    statistics = JobStatistics.of(
        [
            task("words", 0, blocked=8.0, source=Window(0, second, 100, 100)),
            task("slow source", 0, source=Window(0, second, 100, 100)),
            task("asks", 0, waiting=9.0),
            task("sink", 0, waiting=1.0, sink=Window(0, second, 100, 100)),
        ]
    )
    asks = next(each for each in statistics.operators if each.name == "asks")
    assert (asks.busy, asks.waiting, asks.blocked, asks.idle) == (0.1, 0.9, 0.0, 0.0)
    assert statistics.bottleneck == "asks"


def test_failures_are_summed_up_and_shown_where_there_are_any() -> None:
    def result(*failures: int) -> JobResult:
        tasks = [task("served", index, failures=each) for index, each in enumerate(failures)]
        return JobResult(JobConfig(), 1.0, JobStatistics.of([*tasks, task("sink", 0)]), {})

    some = result(2, 3)
    assert [row["failures"] for row in some.to_dict()["operators"]] == [5, 0]
    heads = [line.split() for line in str(some).splitlines() if "operator" in line]
    assert heads[0][-2:] == ["idle", "failures"]
    (served,) = (line.split() for line in str(some).splitlines() if "served" in line)
    assert served[-1] == "5"
    assert "failures" not in str(result(0, 0))


def test_late_records_are_summed_up_and_shown_where_there_are_any() -> None:
    tasks = [task("window", 0, late=2), task("window", 1, failures=1, late=1)]
    some = JobResult(JobConfig(), 1.0, JobStatistics.of([*tasks, task("sink", 0)]), {})
    assert [row["late"] for row in some.to_dict()["operators"]] == [3, 0]
    heads = [line.split() for line in str(some).splitlines() if "operator" in line]
    assert heads[0][-3:] == ["idle", "failures", "late"]
    (row,) = (line.split() for line in str(some).splitlines() if "window" in line)
    assert row[-2:] == ["1", "3"]
    none = JobResult(JobConfig(), 1.0, JobStatistics.of([task("window", 0)]), {})
    assert "late" not in str(none).replace("latency", "")


def test_no_tasks_give_zeros() -> None:
    statistics = JobStatistics.of([])
    assert (statistics.records, statistics.throughput, statistics.bottleneck) == (0, 0.0, None)
