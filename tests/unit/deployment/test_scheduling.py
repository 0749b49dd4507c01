"""How threads of tasks are scheduled."""

import os
import sys
from collections.abc import Callable
from typing import Any

import pytest

import engine
from engine import testing
from engine.deployment import scheduling
from operators import Stream, source
from operators.sinks import Collect
from operators.sources import Collection, Function

pytestmark = pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="Linux schedules so")


def policy(_record: object) -> int:
    return os.sched_getscheduler(0)


def seen(stream: Stream[Any]) -> set[int]:
    """What all tasks of a job saw, in the chain of the source and behind a shuffle."""
    policies = stream.map(policy).rebalance().flat_map(lambda one: [one, policy(one)])
    return set(testing.run(policies.sink(Collect()), parallelism=2)["collect"])


def waiting() -> Function[int]:
    return Function(lambda: iter([1, 2]))


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """The machine has so many."""
    return lambda count: monkeypatch.setattr(scheduling, "usable_cores", lambda: count)


def test_tasks_take_turns_where_only_throughput_counts(cores: Callable[[int], None]) -> None:
    cores(3)
    assert seen(source(Collection([1, 2]))) == {os.SCHED_BATCH}


def test_tasks_work_at_once_where_each_has_a_core(cores: Callable[[int], None]) -> None:
    cores(4)
    assert seen(source(Collection([1, 2]))) == {policy(None)}


def test_tasks_work_at_once_where_records_come_in_their_time(cores: Callable[[int], None]) -> None:
    cores(1)
    ours = {policy(None)}
    assert seen(source(Collection([1, 2], rate=1000))) == ours
    assert seen(source(waiting())) == ours
    assert seen(source(Collection([1, 2])).union(source(waiting()))) == ours


def test_threads_of_a_process_that_runs_a_task_alone_get_the_interpreter_soon() -> None:
    def interval(_record: int) -> float:
        return sys.getswitchinterval()

    ours = sys.getswitchinterval()
    stream = source(Collection([1])).map(interval).sink(Collect())
    (theirs,) = engine.execute(stream, progress="none").output
    assert theirs < ours / 5
    assert testing.run(stream)["collect"] == [ours]  # that process is not the task's alone
