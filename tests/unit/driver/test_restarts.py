"""After which failures a job with checkpoints goes on."""

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from engine.config import JobConfig
from engine.driver.restarts import Restarts
from engine.errors import (
    ChannelLost,
    CheckpointError,
    EngineError,
    OperatorError,
    StorageError,
    WorkerLost,
)
from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.graph.sink import SinkOperator, SinkWriter
from engine.job import JobHandle
from engine.plan import Plan
from engine.state import KeyedState
from engine.testing.threads import ThreadLauncher
from operators import (
    ListState,
    MapState,
    ProcessFunction,
    Session,
    Tumbling,
    ValueState,
    source,
)
from operators.sinks import Discard
from operators.sources import At, Function


def failed(error: str, record: str | None = None, operator: str = "map") -> OperatorError:
    return OperatorError(operator, "map[0]", record, error, "")


def goes_on(*errors: EngineError) -> list[bool]:
    restarts = Restarts(most=10, storage_seconds=60.0)
    return [restarts.delay_after(error, 0.0) is not None for error in errors]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # What a record or the program is the cause of comes again.
        (failed("Error: no", "7"), failed("Error: other", "7"), False),
        (failed("TypeError: no"), failed("TypeError: no"), False),
        (failed("EncodeError: <L at 0x7f10>"), failed("EncodeError: <L at 0x7fff>"), False),
        (failed("TypeError: no"), failed("TypeError: other"), True),
        (failed("TypeError: no"), failed("TypeError: no", operator="other"), True),
        # What is outside may be there again later.
        (failed("ConnectionError: no"), failed("ConnectionError: no"), True),
        (failed("TimeoutError: no"), failed("TimeoutError: no"), True),
        (failed("app.Error: no"), failed("app.Error: no"), True),
        (
            failed("json.decoder.JSONDecodeError: no"),
            failed("json.decoder.JSONDecodeError: no"),
            True,
        ),
        (ChannelLost("no"), ChannelLost("no"), True),
        (StorageError("no"), StorageError("no"), True),
        (WorkerLost("t[0]", "n", "killed"), WorkerLost("t[0]", "n", "killed"), True),
    ],
)
def test_what_comes_again_ends_the_job(
    first: EngineError, second: EngineError, expected: bool
) -> None:
    assert goes_on(first, second) == [True, expected]


def test_what_cannot_be_kept_ends_the_job_at_once() -> None:
    assert goes_on(CheckpointError("no")) == [False]


def test_a_storage_that_is_away_is_waited_for_once_the_job_has_worked() -> None:
    away = StorageError("no answer", code="Unreachable")
    refused = StorageError("no", code="AccessDenied")
    restarts = Restarts(most=2, storage_seconds=60.0)
    assert [restarts.delay_after(away, 0.0) for _ in range(3)] == [0.1, 0.2, None]
    restarts.progressed()
    assert [restarts.delay_after(away, now) for now in (0.0, 30.0, 59.0)] == [0.1, 0.2, 0.4]
    assert restarts.in_a_row == 0
    assert restarts.words == "(storage away for 59 of 60 s)"
    assert [restarts.delay_after(refused, 59.0) for _ in range(3)] == [0.1, 0.2, None]
    assert restarts.delay_after(away, 60.0) is None
    restarts.progressed()
    assert restarts.delay_after(away, 100.0) == 0.1


class Values(ProcessFunction):
    kept = ValueState(None)

    def process(self, record: Any, _context: Any) -> None:
        self.kept = _unsavable()


class Lists(ProcessFunction):
    kept = ListState()

    def process(self, record: Any, _context: Any) -> None:
        self.kept.append(_unsavable())


class Maps(ProcessFunction):
    kept = MapState()

    def process(self, record: Any, _context: Any) -> None:
        self.kept[1] = _unsavable()


class Own(BatchOperator):
    """Keeps by key, or as its own, what cannot be encoded; or fails to say what it keeps."""

    def __init__(self, keeps: str) -> None:
        self.keeps = keeps

    def open(self, context: TaskContext) -> BatchFunction:
        return _Own(self.keeps)


class _Own(BatchFunction):
    def __init__(self, keeps: str) -> None:
        self._keeps = keeps

    def process(self, batch: list[Any]) -> list[Any]:
        return []

    def snapshot(self) -> KeyedState:
        if self._keeps == "value":
            return KeyedState.of([(1, _unsavable())])
        if self._keeps == "key":
            return KeyedState.of([(_unsavable(), 1)])
        if self._keeps == "own":
            return KeyedState.of([], own=(0, [_unsavable()]))
        raise KeyError("no")


class Prepares(SinkOperator[Any]):
    def open(self, context: TaskContext) -> SinkWriter:
        return _Prepares()


class _Prepares(SinkWriter):
    def write(self, records: Any) -> None:
        pass

    def prepare(self, _epoch: int) -> Any:
        return _unsavable()


def _unsavable() -> Any:
    return threading.Lock()


def _numbers(_context: TaskContext, position: int | None) -> Iterator[At]:
    for number in range(position or 0, 1_000_000):
        yield At(number + 1, [(number % 3, number)])


def _positions(_context: TaskContext, position: Any) -> Iterator[At]:
    while True:
        yield At(_unsavable(), [])


def _keyed(make: Callable[[Any], Any]) -> Any:
    kept = make(source(Function(_numbers)).key_by(0)).named("kept")
    return kept.filter(lambda _: False).sink(Discard())


SECOND = timedelta(seconds=1)
UNSAVABLE: dict[str, Callable[[], Any]] = {
    "reduce": lambda: _keyed(lambda keyed: keyed.reduce(lambda *_: _unsavable())),
    "process, a value": lambda: _keyed(lambda keyed: keyed.process(Values())),
    "process, a list": lambda: _keyed(lambda keyed: keyed.process(Lists())),
    "process, a map": lambda: _keyed(lambda keyed: keyed.process(Maps())),
    "slices": lambda: _keyed(
        lambda keyed: keyed.window(Tumbling(SECOND), time=1).reduce(lambda *_: _unsavable())
    ),
    "sessions": lambda: _keyed(
        lambda keyed: keyed.window(Session(SECOND), time=1).reduce(lambda *_: _unsavable())
    ),
    **{
        f"own operator, {keeps}": (lambda keeps=keeps: _keyed(lambda it: it.then(Own(keeps))))  # type: ignore[misc]
        for keeps in ("value", "key", "own", "nothing")
    },
    "position": lambda: source(Function(_positions)).named("kept").sink(Discard()),
    "prepared": lambda: source(Function(_numbers)).sink(Prepares()).named("kept"),
}


@pytest.mark.parametrize("kind", UNSAVABLE)
def test_what_cannot_be_saved_ends_the_job_at_once(tmp_path: Path, kind: str) -> None:
    config = JobConfig(
        checkpoints=str(tmp_path), checkpoint_interval_seconds=0.01, progress="none", batch_size=10
    )
    job = JobHandle(Plan.of(UNSAVABLE[kind](), config), ThreadLauncher(None))
    try:
        with pytest.raises(CheckpointError, match="the state of operator 'kept' cannot be saved"):
            job.wait_finished(300)
        assert job.statistics().restarts == 0
    finally:
        job.cancel()
        job.wait_stopped()
