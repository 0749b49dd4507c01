"""The statistics of workers, one of which is replaced meanwhile."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from engine.config import JobConfig
from engine.deployment.reply import pack
from engine.driver.workers import Workers
from engine.plan import Plan
from operators import source
from operators.sinks import Collect
from operators.sources import Collection
from tests.unit.monitoring.tasks import task


class Worker:
    """It answers when the test says so."""

    def __init__(self) -> None:
        self.answer: Future[bytes] = Future()
        self.asked = lambda: None

    def call(self, _method: str) -> Future[bytes]:
        self.asked()
        return self.answer


def test_a_worker_that_answers_last_before_it_is_replaced_does_not_count() -> None:
    plan = Plan.of(source(Collection([1])).sink(Collect()), JobConfig())
    unused: Any = None
    workers = Workers(plan.execution, unused, JobConfig(), unused, unused)
    old, new = Worker(), Worker()
    told: list[Any] = workers._workers
    told.append(old)

    def replace() -> None:
        told[0] = new
        old.answer.set_result(pack(lambda: task(elapsed=9.0)))

    old.asked = replace
    assert workers.statistics() == []
    new.answer.set_result(pack(lambda: task(elapsed=1.0)))
    assert [each.elapsed_seconds for each in workers.statistics()] == [1.0]
