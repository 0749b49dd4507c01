"""What the coordinator has its workers do: a clock of the test's, and workers that are fakes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from functools import cache
from random import Random
from typing import Any, get_args

import pytest

from engine.config import JobConfig
from engine.driver.coordinator import (
    Coordinator,
    Say,
)
from engine.driver.events import (
    AttemptRequested,
    Call,
    Cancelled,
    EndSource,
    Event,
    LimitPassed,
    MasterFailed,
    RaiseLimit,
    SourceProgressed,
    Step,
    StepDone,
    StepFailed,
    StopRequested,
    WorkerGone,
)
from engine.driver.placing import Place, WorkersPlaced
from engine.errors import (
    ChannelLost,
    EngineError,
    JobCancelled,
    OperatorError,
    StartError,
    WorkerLost,
)
from engine.graph import chain, logical_graph
from engine.graph.execution import ExecutionGraph, expand
from operators import source
from operators.sinks import Collect
from operators.sources import Collection

STARTING: tuple[Step, ...] = ("process_id", "deploy", "connect")
CONFIG = JobConfig(name="tried", connect_timeout_seconds=5.0)


@cache
def graph(parallelism: int = 2, limit: int | None = None) -> ExecutionGraph:
    """Sources, tasks 0 to `parallelism - 1`, and as many tasks with a sink behind them."""
    numbers = source(Collection([1])).rebalance().map(str)
    stream = numbers if limit is None else numbers.take(limit)
    return expand(chain(logical_graph(stream.sink(Collect())), parallelism))


def lost(task: int) -> WorkerLost:
    return WorkerLost(f"t[{task}]", "n", "killed")


def raised(task: int) -> OperatorError:
    return OperatorError("map", f"t[{task}]", None, "ValueError", "")


def cut_off(task: int) -> ChannelLost:
    return ChannelLost(f"t[{task}]")


class Job:
    """A coordinator and what it said; `now` is the time."""

    def __init__(self, of: ExecutionGraph | None = None) -> None:
        self.graph = of or graph()
        self.coordinator = Coordinator(self.graph, CONFIG)
        self.now = 100.0
        self.tasks = range(len(self.graph.vertices))
        placing = self.coordinator.handle([AttemptRequested()], self.now)
        assert placing == [Place(tuple(self.tasks))]
        self.said: list[Any] = self.coordinator.handle([WorkersPlaced(tuple(self.tasks))], self.now)

    def handle(self, *events: Event, after: float = 0.0) -> list[Any]:
        self.now += after
        self.said = self.coordinator.handle(events, self.now)
        return self.said

    def done(self, step: Step, *tasks: int) -> list[Any]:
        attempt = self.coordinator.attempt
        return self.handle(*(StepDone(task, step, attempt) for task in tasks or self.tasks))

    def at(self, step: Step) -> Job:
        """As it is when every task was just told to take the step."""
        for each in (*STARTING, "run"):
            if self.coordinator.step == step:
                return self
            self.done(each)  # type: ignore[arg-type]
        assert self.coordinator.step == step
        return self

    def told(self, step: Step) -> list[int]:
        return [each.task for each in self.said if isinstance(each, Call) and each.step == step]


def test_steps_are_taken_by_all_in_order() -> None:
    job = Job()
    for step, following in [
        ("process_id", "deploy"),
        ("deploy", "connect"),
        ("connect", "run"),
        ("run", "commit"),
        ("commit", "close"),
    ]:
        assert job.coordinator.step == step
        job.done(step, 0, 1, 2)  # type: ignore[arg-type]
        assert not any(isinstance(each, Call) for each in job.said)
        job.done(step, 3)  # type: ignore[arg-type]
        assert [each for each in job.said if isinstance(each, Call)] == [
            Call(task, following, 0)  # type: ignore[arg-type]
            for task in job.tasks
        ]
    job.done("close")
    assert (job.coordinator.step, job.coordinator.error, job.coordinator.wake) == (None, None, None)


@pytest.mark.parametrize("step", [*STARTING, "run", "commit"])
def test_a_death_ends_the_job_for_those_who_live(step: Step) -> None:
    job = Job().at(step)
    job.handle(WorkerGone(1, lost(1)))
    assert job.told("cancel") == [0, 2, 3]
    job.handle(WorkerGone(0, lost(0)))
    assert not job.said
    job.done("cancel", 2, 3)
    assert job.told("close") == [2, 3]
    job.done("close", 2, 3)
    assert job.coordinator.step is None
    assert isinstance(job.coordinator.error, WorkerLost)
    assert job.coordinator.error.task == "t[1]"


def test_whoever_does_not_answer_in_time_is_named() -> None:
    job = Job().at("deploy")
    job.done("deploy", 0, 3)
    job.handle(after=4.9)
    assert job.coordinator.error is None
    job.handle(after=0.1)
    error = job.coordinator.error
    assert isinstance(error, StartError)
    late = ", ".join(job.graph.vertices[task].name for task in (1, 2))
    assert error.message == f"2 of 4 workers did not answer 'deploy' within 5 s: {late}"
    assert job.told("cancel") == [0, 1, 2, 3]


def test_a_broken_channel_waits_for_the_death_that_explains_it() -> None:
    job = Job().at("run")
    assert job.handle(StepFailed(2, "run", 0, cut_off(2))) == []
    assert job.coordinator.wake == pytest.approx(job.now + 0.8)
    job.handle(WorkerGone(1, lost(1)), after=0.5)
    assert isinstance(job.coordinator.error, WorkerLost)


def test_a_broken_channel_is_told_where_nobody_died() -> None:
    job = Job().at("run")
    job.handle(StepFailed(2, "run", 0, cut_off(2)))
    job.handle(StepFailed(3, "run", 0, cut_off(3)), after=0.7)
    assert job.coordinator.error is None
    job.handle(after=0.1)
    assert job.coordinator.error is not None
    assert str(job.coordinator.error) == "t[2]"


def test_what_comes_together_is_judged_together() -> None:
    job = Job().at("run")
    job.handle(
        StepFailed(3, "run", 0, cut_off(3)),
        StepFailed(2, "run", 0, raised(2)),
        WorkerGone(1, lost(1)),
        Cancelled(),
    )
    assert isinstance(job.coordinator.error, WorkerLost)
    job = Job().at("run")
    job.handle(StepFailed(0, "run", 0, cut_off(0)), StepFailed(2, "run", 0, raised(2)))
    assert isinstance(job.coordinator.error, OperatorError)


def test_every_sink_may_commit_before_one_that_could_not_is_told() -> None:
    job = Job().at("commit")
    job.handle(StepFailed(2, "commit", 0, raised(2)))
    assert job.coordinator.error is None
    job.done("commit", 0, 1)
    job.handle(StepFailed(3, "commit", 0, raised(3)))
    assert isinstance(job.coordinator.error, OperatorError)
    assert job.coordinator.error.task == "t[2]"


def test_answers_to_earlier_steps_are_for_nobody() -> None:
    job = Job().at("run")
    job.handle(Cancelled())
    assert isinstance(job.coordinator.error, JobCancelled)
    job.handle(StepFailed(0, "run", 0, raised(0)))
    job.done("run")
    job.done("connect")
    assert job.coordinator.step == "cancel"
    assert isinstance(job.coordinator.error, JobCancelled)


@pytest.mark.parametrize("step", [*STARTING, "run"])
def test_a_job_is_deployed_anew_in_the_same_workers(step: Step) -> None:
    job = Job().at(step)
    job.handle(StepFailed(2, "run", 0, cut_off(2)) if step == "run" else StopRequested())
    job.handle(AttemptRequested(), after=0.5)
    calls = [each for each in job.said if isinstance(each, Call)]
    assert calls == [
        *(Call(task, "cancel", 0) for task in job.tasks),
        *(Call(task, "process_id", 1) for task in job.tasks),
    ]
    for late in ("cancel", step, "run"):
        job.handle(*(StepDone(task, late, 0) for task in job.tasks))  # type: ignore[arg-type]
        job.handle(StepFailed(0, late, 0, raised(0)))  # type: ignore[arg-type]
    assert (job.coordinator.step, job.coordinator.error) == ("process_id", None)
    for each in (*STARTING, "run"):
        job.done(each)  # type: ignore[arg-type]
    assert [Call(task, "commit", 1) for task in job.tasks] == job.said
    assert job.handle(AttemptRequested()) == []
    job.done("commit")
    job.done("close")
    assert (job.coordinator.step, job.coordinator.error) == (None, None)


def test_sources_end_once_in_each_attempt() -> None:
    job = Job().at("run")
    assert job.handle(StopRequested()) == [EndSource(0, 0), EndSource(1, 0)]
    job.handle(AttemptRequested())
    for each in STARTING:
        job.done(each)
    assert [each for each in job.said if isinstance(each, EndSource)] == [
        EndSource(0, 1),
        EndSource(1, 1),
    ]


def test_whoever_does_not_drop_what_it_holds_is_not_waited_for() -> None:
    job = Job().at("run")
    job.handle(MasterFailed(RuntimeError("no master")))
    assert job.told("cancel") == [0, 1, 2, 3]
    job.handle(after=0.79)
    assert job.coordinator.step == "cancel"
    job.handle(after=0.01)
    assert job.told("close") == [0, 1, 2, 3]
    job.handle(after=0.8)
    assert job.coordinator.step is None
    assert str(job.coordinator.error) == "no master"


def test_sources_end_once_where_somebody_wants_no_more() -> None:
    job = Job().at("deploy")
    assert job.handle(StopRequested()) == []
    job.at("run")
    assert [each for each in job.said if isinstance(each, EndSource)] == [
        EndSource(0, 0),
        EndSource(1, 0),
    ]
    assert job.handle(StopRequested()) == []


def test_sources_end_when_all_that_read_them_have() -> None:
    job = Job().at("run")
    assert job.done("run", 2) == []
    assert job.done("run", 3) == [EndSource(0, 0), EndSource(1, 0)]


def test_sources_end_when_a_limit_is_reached() -> None:
    job = Job(graph(1, limit=10)).at("run")
    assert job.coordinator.wake is None
    assert job.handle(LimitPassed(1, 1, "take")) == []
    assert job.handle(LimitPassed(1, 0, "take")) == [EndSource(0, 0)]
    assert job.handle(LimitPassed(1, 0, "take")) == []


def test_sources_read_on_when_the_slowest_has_come_on() -> None:
    read = source(Collection([1])).with_event_time(None, max_drift=timedelta(milliseconds=1))
    aligned = expand(chain(logical_graph(read.rebalance().map(str).sink(Collect())), 2))
    job = Job(aligned).at("run")
    assert job.handle(SourceProgressed(0, 1, 5000), SourceProgressed(1, 1, 5000)) == []
    assert job.handle(SourceProgressed(0, 0, 5000)) == []
    assert job.handle(SourceProgressed(1, 0, 700)) == [
        RaiseLimit(0, 0, 1700),
        RaiseLimit(1, 0, 1700),
    ]
    assert job.handle(SourceProgressed(1, 0, 1500), SourceProgressed(1, 0, 1600)) == [
        RaiseLimit(0, 0, 2600),
        RaiseLimit(1, 0, 2500),
    ], "the last limit counts; with the second, task 1 had most of its own left"
    assert job.handle(SourceProgressed(1, 0, None)) == [RaiseLimit(0, 0, 6000)]
    assert job.handle(WorkerGone(0, lost(0)), SourceProgressed(1, 0, 5000)) == [
        *(Call(task, "cancel", 0) for task in (1, 2, 3)),
    ]
    job = Job(aligned).at("run")
    job.handle(SourceProgressed(0, 0, 5000))
    job.handle(AttemptRequested())
    job.at("run")
    assert job.handle(SourceProgressed(1, 1, 700)) == [], "of another attempt, nothing is known"


def test_who_dies_after_its_commit_fails_no_job() -> None:
    job = Job().at("run")
    job.done("run")
    job.done("commit", 2)
    assert job.handle(WorkerGone(2, lost(2))) == []
    job.done("commit", 0, 1, 3)
    assert job.told("close") == [0, 1, 3]
    assert job.coordinator.error is None


def test_what_takes_long_is_told() -> None:
    job = Job()
    job.done("process_id", 0)
    assert job.handle(after=1.0) == [Say("starting workers 1 of 4")]
    job.handle(*(StepDone(task, "process_id", 0) for task in (1, 2, 3)), after=0.5)
    assert job.handle(after=0.5) == [Say("setting up workers 0 of 4")]
    job.at("commit")
    assert job.handle(after=0.9) == []
    assert job.handle(after=0.1) == [Say("finishing workers 0 of 4")]


def place(error: BaseException) -> int:
    """The lower, the sooner it is told."""
    order = (WorkerLost, OperatorError, EngineError)
    return next(at for at, kind in enumerate(order) if isinstance(error, kind))


class Simulation:
    """One job to its end: workers that answer, fail, die or are silent, when chance has it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.job = Job(graph(self.random.randint(1, 3), self.random.choice([None, 10])))
        self.trouble = self.random.choice([0.0, 0.02, 0.2])
        self.coming: list[tuple[float, Event]] = []
        self.dead: set[int] = set()
        """As the coordinator has been told."""
        self.calls: list[Call] = []
        self.ended: list[EndSource] = []
        self.known: list[EngineError] = []
        """Failures that were handed over, in the step in which the job was given up."""
        self.interrupted = False
        """Whether the job was cancelled, or its master failed."""
        for event in (
            Cancelled(),
            StopRequested(),
            MasterFailed(RuntimeError("broken")),
            AttemptRequested(),
            AttemptRequested(),
        ):
            if self.random.random() < 0.1:
                self.coming.append((self.job.now + self.random.random() * 8, event))

    def run(self) -> None:
        self.carry_out(self.job.said)
        for _ in range(10_000):
            if self.job.coordinator.step is None:
                return
            self.carry_out(self.next())
        raise AssertionError("the job does not end")

    def next(self) -> list[Any]:
        """Hand over what comes next, alone or with more of it."""
        job, wake = self.job, self.job.coordinator.wake
        self.coming.sort(key=lambda each: each[0])
        first = min((at for at, _ in self.coming), default=float("inf"))
        assert wake is not None or self.coming, "it waits for nothing"
        job.now = max(job.now, min(first, wake or first))
        reach = job.now + self.random.choice([0.0, 0.0, 0.3])
        events = [event for at, event in self.coming if at <= reach]
        self.coming = [each for each in self.coming if each[0] > reach]
        job.now = max(job.now, reach if events else job.now)
        step, given_up = job.coordinator.step, job.coordinator.error
        self.attempt = job.coordinator.attempt
        for event in events:
            if isinstance(event, WorkerGone):
                self.dead.add(event.task)
            if isinstance(event, AttemptRequested) and step not in ("commit", "cancel", "close"):
                self.known = [each for each in self.known if isinstance(each, WorkerLost)]
                step, self.attempt = "process_id", self.attempt + 1
            if given_up is None and step != "close":
                if isinstance(event, WorkerGone) or (
                    isinstance(event, StepFailed)
                    and (event.step, event.attempt) == (step, self.attempt)
                ):
                    self.known.append(event.error)
                self.interrupted |= isinstance(event, Cancelled | MasterFailed)
        said = job.handle(*events)
        if job.coordinator.error is None and job.coordinator.step != step:
            assert not self.known
        return said

    def carry_out(self, commands: Iterable[Any]) -> None:
        for command in commands:
            match command:
                case Call(task, step, attempt):
                    assert task not in self.dead
                    self.calls.append(command)
                    self.coming += self.answers(task, step, attempt)
                case EndSource(task):
                    assert task not in self.dead
                    self.ended.append(command)

    def answers(self, task: int, step: Step, attempt: int) -> list[tuple[float, Event]]:
        at = self.job.now + self.random.choice([0.0, 0.1, 0.5, 2.0]) * self.random.random()
        operators = self.job.graph.vertices[task].job_vertex.operators
        if step == "run" and "take" in [each.name for each in operators]:
            self.coming.append((at, LimitPassed(task, attempt, "take")))
        if self.random.random() >= self.trouble:
            return [(at, StepDone(task, step, attempt))]
        kind = self.random.choice(["dies", "fails", "fails and dies", "cut off", "cut off, dies"])
        if step in STARTING or step in ("cancel", "close"):
            kind = self.random.choice(["dies", "silent", "refuses"])
        error: EngineError = raised(task) if "fails" in kind else cut_off(task)
        if kind == "refuses":
            error = StartError("no")
        events: list[tuple[float, Event]] = []
        if kind not in ("dies", "silent"):
            events.append((at, StepFailed(task, step, attempt, error)))
        if "dies" in kind:
            events.append((at + self.random.random(), WorkerGone(task, lost(task))))
        return events

    def check(self) -> None:
        error = self.job.coordinator.error
        last = self.job.coordinator.attempt
        assert len(set(self.calls)) == len(self.calls)
        taken = [(call.task, call.step) for call in self.calls if call.attempt == last]
        closed = [call.task for call in self.calls if call.step == "close"]
        assert len(set(closed)) == len(closed)
        assert len(set(self.ended)) == len(self.ended)
        told = {step: {task for task, each in taken if each == step} for step in get_args(Step)}
        living = set(self.job.tasks) - self.dead
        assert living <= told["close"]
        assert (living <= told["cancel"]) if error is not None else not told["cancel"]
        if error is None:
            assert not self.known
            assert not self.interrupted
            assert all(told[step] == set(self.job.tasks) for step in ("run", "commit"))
        elif self.known and not self.interrupted:
            late = isinstance(error, StartError) and "did not answer" in str(error)
            assert late or place(error) == min(map(place, self.known))
        elif not self.interrupted:
            assert "did not answer" in str(error)


@pytest.mark.parametrize("block", range(10))
def test_whatever_happens_in_whatever_order_a_job_ends_as_it_should(block: int) -> None:
    for seed in range(block * 300, block * 300 + 300):
        simulation = Simulation(seed)
        try:
            simulation.run()
            simulation.check()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
