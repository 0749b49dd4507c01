"""How far sources may read: who waits for whom, by how much, and that none waits for ever."""

from __future__ import annotations

from collections import deque
from datetime import timedelta
from random import Random

import pytest

from engine.driver.source_alignment import SourceAlignment
from engine.graph import chain, logical_graph
from engine.graph.execution import ExecutionGraph, expand
from engine.graph.watermark import END_OF_TIME
from engine.task.drift import Drift
from operators import BroadcastProcessFunction, Pipeline, Stream, source
from operators.sinks import Collect, Discard
from operators.sources import Collection

SECOND = timedelta(seconds=1)
S = 1_000_000


def read(drift: int | None = 10) -> Stream[int]:
    """A source with its times in the tasks before its index times parallelism."""
    max_drift = None if drift is None else drift * SECOND
    return source(Collection([1])).with_event_time(None, unit="s", max_drift=max_drift)


def planned(*pipelines: Pipeline, parallelism: int = 1) -> ExecutionGraph:
    return expand(chain(logical_graph(pipelines), parallelism))


def groups(graph: ExecutionGraph) -> set[frozenset[int]]:
    """The tasks of sources that wait for each other."""
    found = SourceAlignment(graph)._groups.values()
    return {frozenset(group.tasks) for group in found}


def sources(graph: ExecutionGraph) -> list[int]:
    return [task.id for task in graph.vertices if task.job_vertex.is_source]


def test_tasks_of_one_source_are_a_group() -> None:
    graph = planned(read().rebalance().map(str).sink(Discard()), parallelism=3)
    assert groups(graph) == {frozenset(sources(graph))}
    assert len(sources(graph)) == 3


def test_sources_without_a_drift_are_of_no_group() -> None:
    assert groups(planned(read(None).sink(Discard()))) == set()
    graph = planned(read(None).union(read(), read()).sink(Discard()))
    assert groups(graph) == {frozenset(sources(graph)[1:])}


def test_sources_whose_streams_meet_are_a_group() -> None:
    one, two, three = read(), read(), read()
    met = one.map(str).union(two.map(str)).rebalance().map(int)
    graph = planned(met.sink(Collect()), three.sink(Discard()))
    first, second, third = sources(graph)
    assert groups(graph) == {frozenset([first, second]), frozenset([third])}
    graph = planned(met.union(three).sink(Collect()))
    assert groups(graph) == {frozenset(sources(graph))}
    graph = planned(
        one.union(two).sink(Collect()), two.union(three).sink(Collect()).named("others")
    )
    assert groups(graph) == {frozenset(sources(graph))}


def test_the_two_sides_of_a_join_are_a_group() -> None:
    joined = read().key_by().interval_join(read().key_by(), between=(-SECOND, SECOND))
    graph = planned(joined.sink(Discard()), parallelism=2)
    assert groups(graph) == {frozenset(sources(graph))}
    assert len(sources(graph)) == 4


class Rules(BroadcastProcessFunction):
    def process(self, record: object, context: object) -> None: ...
    def process_broadcast(self, record: object, context: object) -> None: ...


def test_a_side_input_has_its_own_time() -> None:
    stream = read().key_by().process_with(read().broadcast(), Rules())
    graph = planned(stream.sink(Discard()))
    assert groups(graph) == {frozenset([task]) for task in sources(graph)}


def test_a_source_alone_waits_for_nobody() -> None:
    graph = planned(read().sink(Discard()))
    (task,) = sources(graph)
    alignment = SourceAlignment(graph)
    assert alignment.progressed(task, 7 * S) == {task: END_OF_TIME}
    assert alignment.progressed(task, 700 * S) == {}


def three(drift: int = 10) -> tuple[SourceAlignment, int, int, int]:
    graph = planned(read(drift).rebalance().map(str).sink(Discard()), parallelism=3)
    a, b, c = sources(graph)
    return SourceAlignment(graph), a, b, c


def test_the_limit_is_a_drift_above_the_least() -> None:
    alignment, a, b, c = three()
    assert alignment.progressed(a, 100 * S) == {}
    assert alignment.progressed(b, 50 * S) == {}, "one has told nothing yet"
    assert alignment.progressed(c, 70 * S) == {a: 60 * S, b: 60 * S, c: 60 * S}
    assert alignment.progressed(b, 52 * S) == {a: 62 * S, c: 62 * S}, "b has most of it left"
    assert alignment.progressed(b, 56 * S) == {a: 66 * S, b: 66 * S, c: 66 * S}
    assert alignment.progressed(b, 90 * S) == {a: 80 * S, b: 80 * S, c: 80 * S}


def test_who_is_idle_or_has_ended_holds_up_nobody() -> None:
    alignment, a, b, c = three()
    alignment.progressed(a, 100 * S)
    alignment.progressed(b, 50 * S)
    assert alignment.progressed(c, None) == {a: 60 * S, b: 60 * S}
    assert alignment.progressed(b, None) == {a: 110 * S}
    assert alignment.progressed(a, None) == {}
    assert alignment.progressed(b, 300 * S) == {b: 310 * S}


def test_a_limit_never_falls() -> None:
    alignment, a, b, c = three()
    alignment.progressed(a, 100 * S)
    alignment.progressed(c, None)
    alignment.progressed(b, 100 * S)
    assert alignment.progressed(c, 10 * S) == {c: 20 * S}, "it wakes far behind"
    assert alignment.progressed(a, 110 * S) == {}, "and nobody gets a higher one"
    assert alignment.progressed(c, 99 * S) == {c: 109 * S}
    assert alignment.progressed(c, 102 * S) == {}, "it has most of it left"
    assert alignment.progressed(b, 108 * S) == {a: 112 * S, b: 112 * S}


class Simulation:
    """Sources that read, and messages between them and the master that take their time."""

    def __init__(self, seed: int, with_idle: bool) -> None:
        self.random = random = Random(seed)
        self.drift_us = random.choice([1000, 10 * S, 1000 * S])
        graph = planned(
            source(Collection([1]))
            .with_event_time(None, max_drift=timedelta(microseconds=self.drift_us))
            .rebalance()
            .map(str)
            .sink(Discard()),
            parallelism=random.randint(2, 5),
        )
        self.alignment = SourceAlignment(graph)
        self.tasks = sources(graph)
        self.drifts = {task: Drift(self.drift_us) for task in self.tasks}
        self.words: deque[int] = deque()
        for task, drift in self.drifts.items():
            drift.say = lambda task=task: self.words.append(task)
        self.limits: deque[tuple[int, int]] = deque()
        self.left = {task: random.randint(0, 60) for task in self.tasks}
        self.pace = {task: random.randint(1, 1 + self.drift_us // 3) for task in self.tasks}
        self.now = dict.fromkeys(self.tasks, random.randint(-10, 10) * S)
        self.counts = dict.fromkeys(self.tasks, True)
        self.has_told = dict.fromkeys(self.tasks, False)
        self.with_idle = with_idle

    def run(self) -> None:
        while self.left or self.words or self.limits:
            able = [task for task in self.left if not self.drifts[task].is_ahead]
            able = [*able, *([-1] if self.words else []), *([-2] if self.limits else [])]
            assert able, "all wait for each other"
            chosen = self.random.choice(able)
            if chosen == -1:
                task = self.words.popleft()
                self.limits += self.alignment.progressed(task, self.drifts[task].take()).items()
            elif chosen == -2:
                task, limit_us = self.limits.popleft()
                self.drifts[task].raise_limit(limit_us)
            else:
                self.read(chosen)

    def read(self, task: int) -> None:
        """The next batch of a source, its end, or a pause."""
        if self.has_told[task] and not self.with_idle:
            counting = [each for each in self.tasks if self.counts[each]]
            assert all(self.has_told[each] for each in counting) or not self.has_told[task]
            assert self.now[task] <= min(self.now[each] for each in counting) + self.drift_us
        if self.left[task] == 0:
            del self.left[task]
            self.counts[task] = False
            self.drifts[task].tell(None)
        elif self.with_idle and self.random.random() < 0.1:
            self.drifts[task].tell(None)
        else:
            self.left[task] -= 1
            self.now[task] += self.random.randint(0, 2 * self.pace[task])
            self.has_told[task] = True
            self.drifts[task].tell(self.now[task])


@pytest.mark.parametrize("with_idle", [False, True])
def test_no_source_runs_away_and_none_waits_for_ever(with_idle: bool) -> None:
    for seed in range(400):
        try:
            Simulation(seed, with_idle).run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_the_master_hears_no_more_often_than_it_must() -> None:
    said = []
    drift = Drift(80)
    drift.say = lambda: said.append(drift.take())
    drift.raise_limit(120)
    for time in (None, *range(100)):
        drift.tell(time)
    assert said == [None, *range(0, 100, 10)]
    for time in (150, None, 151, 152):
        drift.tell(time)
    assert said[-3:] == [150, None, 151]
