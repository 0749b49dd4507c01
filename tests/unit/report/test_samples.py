"""Samples of a job: who gets them, and when."""

from __future__ import annotations

import math

import pytest

from engine.report.samples import Sample, Sampler
from tests.unit.report.test_progress import sink
from tests.waiting import wait_until


class Watching:
    """It remembers its samples, and raises at the third if it is to fail."""

    def __init__(self, period: float, fails: bool = False) -> None:
        self.period = period
        self._fails = fails
        self.samples: list[Sample] = []
        self.closed = 0

    def take(self, sample: Sample) -> None:
        self.samples.append(sample)
        if self._fails and len(self.samples) == 3:
            raise OSError("No space left on device")

    def close(self) -> None:
        self.closed += 1


def test_each_watcher_gets_samples_as_often_as_it_wants() -> None:
    often, seldom, never = Watching(0.01), Watching(1000.0), Watching(math.inf)
    counted = iter(range(1_000_000))
    sampler = Sampler(lambda: [sink(next(counted), 7)], [often, seldom, never])
    sampler.start()
    wait_until(lambda: len(often.samples) >= 5)
    sampler.end([sink(2e6, 9)])
    assert [sample.is_last for sample in seldom.samples] == [True]
    assert never.samples == []
    *running, last = often.samples
    assert not any(sample.is_last for sample in running)
    assert last.is_last
    assert last.statistics.records == 9
    taken = [sample.tasks[0].elapsed_seconds for sample in running]
    assert taken == list(range(len(running)))
    for before, sample in zip(often.samples, often.samples[1:], strict=False):
        assert sample.before == before.tasks
        assert sample.at >= before.at
    assert [each.closed for each in (often, seldom, never)] == [1, 1, 1]


def test_a_watcher_that_raises_gets_no_more_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    good, bad = Watching(0.01), Watching(0.01, fails=True)
    sampler = Sampler(lambda: (), [bad, good])
    sampler.start()
    wait_until(lambda: len(good.samples) >= 6)
    sampler.end(())
    assert len(bad.samples) == 3
    assert good.samples[-1].is_last
    assert [bad.closed, good.closed] == [1, 1]
    assert caplog.messages == [
        "Watching watches the job no longer: OSError: No space left on device"
    ]


def test_a_job_that_failed_has_no_last_sample() -> None:
    watching = Watching(0.01)
    sampler = Sampler(lambda: (), [watching])
    sampler.start()
    wait_until(lambda: bool(watching.samples))
    sampler.end()
    assert not any(sample.is_last for sample in watching.samples)
    assert watching.closed == 1
