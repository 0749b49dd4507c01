"""Samples of a running job: taken in one place, and given to all that watch the job."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from engine.deployment.description import TaskStatistics
from engine.report.statistics import JobStatistics

logger = logging.getLogger("oka")


@dataclass(frozen=True)
class Sample:
    """All tasks of a job at one moment. A snapshot: it never changes."""

    at: float
    """In seconds since 1970."""
    tasks: tuple[TaskStatistics, ...]
    """Those that the job has now; there are none before the workers have started."""
    before: tuple[TaskStatistics, ...] = field(default=(), repr=False)
    """The tasks in the sample before."""
    is_last: bool = False
    """Whether the job has succeeded, and these are its final figures."""

    @cached_property
    def statistics(self) -> JobStatistics:
        """The tasks, summed up when somebody asks; shares of time are since the sample before."""
        return JobStatistics.of(self.tasks, self.before)


class Watcher(Protocol):
    """What watches a job, such as its progress line."""

    @property
    def period(self) -> float:
        """The seconds between two samples that it takes; infinite if it takes none."""

    def take(self, sample: Sample) -> None:
        """Take a sample. It must not wait: the others get theirs later."""

    def close(self) -> None:
        """Let go of everything: the job has ended; idempotent."""


class Sampler:
    """Takes samples of a job, as often as its most frequent watcher wants some.

    A thread of its own asks for them, so nobody else waits for a worker. A watcher that raises gets
    no more samples; the others and the job go on.
    """

    def __init__(
        self, statistics: Callable[[], Iterable[TaskStatistics]], watchers: Sequence[Watcher]
    ) -> None:
        self._statistics = statistics
        now = time.monotonic()
        self._due = {each: now + each.period for each in watchers if each.period < math.inf}
        """When each of those that still watch gets its next sample."""
        self._watchers = watchers
        self._before: tuple[TaskStatistics, ...] = ()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="oka-samples", daemon=True)

    def start(self) -> None:
        """Take samples from now on."""
        self._thread.start()

    def end(self, tasks: Iterable[TaskStatistics] | None = None) -> None:
        """Take no more samples, and close all watchers; they first get the final `tasks`, if any.

        Waits for the sample that is being taken, for a second at most.
        """
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join(_PATIENCE_SECONDS)
        if tasks is not None and not self._thread.is_alive():
            self._give(list(self._due), tuple(tasks), is_last=True)
        for watcher in self._watchers:
            watcher.close()

    def _run(self) -> None:
        while self._due and not self._ended.wait(min(self._due.values()) - time.monotonic()):
            tasks = tuple(self._statistics())
            now = time.monotonic()
            due = [watcher for watcher, when in self._due.items() if when <= now]
            for watcher in due:
                self._due[watcher] = now + watcher.period
            self._give(due, tasks)

    def _give(
        self, watchers: Sequence[Watcher], tasks: tuple[TaskStatistics, ...], is_last: bool = False
    ) -> None:
        sample = Sample(time.time(), tasks, self._before, is_last)
        self._before = tasks
        for watcher in watchers:
            try:
                watcher.take(sample)
            except Exception as error:  # noqa: BLE001 - the job goes on, whatever it was
                self._due.pop(watcher)
                what = f"{type(error).__name__}: {error}"
                logger.warning(f"{type(watcher).__name__} watches the job no longer: {what}")


_PATIENCE_SECONDS = 1.0
