"""Records through a model that is replaced while they stream, in one process and on lists."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import engine
from engine.errors import GraphError
from engine.graph import BatchOperator, TaskContext, chain, logical_graph
from engine.graph.render import mermaid, text
from engine.model import Descriptor, Model, pack
from engine.network import Cancelled, ChannelLost
from engine.placement.nodes import Node
from engine.placement.place import Placement
from engine.testing import run
from operators import Pipeline, Stream, source
from operators.sinks import Collect
from operators.sources import Collection, Function
from operators.with_model import MapBatchesWithModel
from tests.waiting import pauses, wait_until


class Gate:
    """Counts what a function does to its task."""

    def __init__(self) -> None:
        self.resumed = threading.Semaphore(0)
        self.failed = threading.Semaphore(0)
        self.error: BaseException | None = None

    def resume(self) -> None:
        self.resumed.release()

    def fail(self, error: BaseException) -> None:
        self.error = error
        self.failed.release()


def versioned(version: int) -> Model:
    package = pack(b"weights")
    descriptor = Descriptor("channels", version, "tiny", package.layout, 0, version)
    return Model(descriptor, lambda timeout: package.contiguous)


def unpublished(version: int) -> Model:
    nothing = pack(b"").layout
    failure = f"version {version} cannot be packed"
    descriptor = Descriptor("channels", version, "tiny", nothing, 0, version, failure=failure)
    return Model(descriptor, lambda timeout: b"")


def opened(
    load: Callable[[Any], Any], background: bool = True, on_load_error: Any = "keep"
) -> tuple[Any, Gate]:
    operator = MapBatchesWithModel(
        load, lambda loaded, batch: [(loaded, n) for n in batch], background, on_load_error
    )
    assert operator.properties.holds_records
    gate = Gate()
    return operator.open(TaskContext("t[0]", 0, 1, 100, "job", gate=gate)), gate


def test_records_come_once_the_first_model_is_loaded() -> None:
    may_load = threading.Event()
    function, gate = opened(lambda model: may_load.wait(60) and f"loaded {model}")
    function.take_side(["a"])
    assert not gate.resumed.acquire(blocking=False)
    may_load.set()
    assert gate.resumed.acquire(timeout=300)
    assert function.process([1, 2]) == [("loaded a", 1), ("loaded a", 2)]


def test_the_old_model_serves_until_the_new_one_is_loaded() -> None:
    may_load = threading.Event()
    first, second = versioned(1), versioned(2)
    function, gate = opened(lambda model: (model.version == 1 or may_load.wait(60)) and model)
    function.take_side([first])
    assert gate.resumed.acquire(timeout=300)
    assert function.process([1]) == [(first, 1)]
    function.take_side([second])
    assert function.process([2]) == [(first, 2)]
    assert bytes(first.value()) == b"weights"
    may_load.set()
    wait_until(lambda: function.process([3]) == [(second, 3)])
    with pytest.raises(engine.ModelError, match="was released"):
        first.value()
    assert bytes(second.value()) == b"weights"


def test_without_a_thread_a_model_is_applied_where_it_arrives() -> None:
    threads = []

    def load(model: str) -> str:
        threads.append(threading.current_thread())
        return model.upper()

    function, gate = opened(load, background=False)
    function.take_side(["a"])
    assert gate.resumed.acquire(blocking=False)
    assert function.process([1]) == [("A", 1)]
    function.take_side(["b", "c"])
    assert function.process([2]) == [("C", 2)]
    assert threads == [threading.current_thread()] * 3


def test_of_models_that_wait_the_newest_is_loaded() -> None:
    loading, may_load, loaded = threading.Event(), threading.Event(), []

    def load(model: int) -> int:
        loading.set()
        assert may_load.wait(60)
        loaded.append(model)
        return model

    function, gate = opened(load)
    function.take_side([1])
    assert loading.wait(60)
    function.take_side([2, 3])
    function.take_side([4])
    may_load.set()
    assert gate.resumed.acquire(timeout=300)
    wait_until(lambda: function.process(["x"]) == [(4, "x")])
    assert loaded == [1, 4]


@pytest.mark.parametrize("background", [True, False])
def test_versions_only_go_up(background: bool) -> None:
    function, _ = opened(lambda model: model.version, background)
    function.take_side([versioned(3)])
    wait_until(lambda: function.process([0]) == [(3, 0)])
    function.take_side([versioned(2), versioned(3)])
    function.take_side([versioned(4)])
    found = []

    def has_the_last() -> bool:
        found.extend(function.process([0]))
        return found[-1] == (4, 0)

    wait_until(has_the_last)
    assert set(found) <= {(3, 0), (4, 0)}


def test_a_load_that_fails_ends_the_task_at_once() -> None:
    function, gate = opened(lambda model: 1 // model)
    function.take_side([0])
    assert gate.failed.acquire(timeout=300)
    assert str(gate.error).startswith("load raised ZeroDivisionError: ")
    assert str(gate.error).endswith("with 0")
    with pytest.raises(Cancelled):
        function.process([1])


@pytest.mark.parametrize("background", [True, False])
def test_a_later_load_that_fails_keeps_the_model_before(
    background: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def load(model: Model) -> int:
        if model.version in (2, 3):
            raise ValueError(f"no layer {model.version}")
        return model.version

    function, gate = opened(load, background)
    first, broken = versioned(1), versioned(2)
    function.take_side([first])
    assert gate.resumed.acquire(timeout=300)
    assert function.process([0]) == [(1, 0)]
    function.take_side([broken])
    wait_until(lambda: function.failures == 1)
    assert function.process([0]) == [(1, 0)]
    function.take_side([versioned(3)])
    wait_until(lambda: function.failures == 2)
    assert function.process([0]) == [(1, 0)]
    with pytest.raises(engine.ModelError, match="was released"):
        broken.value()
    assert bytes(first.value()) == b"weights"
    function.take_side([versioned(4)])
    wait_until(lambda: function.process([0]) == [(4, 0)])
    said = [record.message for record in caplog.records]
    assert said == [
        f"task t[0]: <Model 'tiny' version 1: bytes, 0.0 MB> stays, since load raised ValueError: "
        f"no layer {version}, with <Model 'tiny' version {version}: bytes, 0.0 MB>"
        for version in (2, 3)
    ]
    assert not gate.failed.acquire(blocking=False)
    assert gate.error is None


def test_the_first_load_that_fails_ends_the_task_though_it_keeps_models() -> None:
    function, _ = opened(lambda model: 1 // model, background=False)
    with pytest.raises(RuntimeError, match="load raised ZeroDivisionError"):
        function.take_side([0])
    assert function.failures == 0


def test_a_later_load_that_fails_ends_the_task_where_that_is_wanted() -> None:
    function, gate = opened(lambda model: 1 // model, on_load_error="fail")
    function.take_side([1])
    assert gate.resumed.acquire(timeout=300)
    assert function.process(["x"]) == [(1, "x")]
    function.take_side([0])
    assert gate.failed.acquire(timeout=300)
    assert str(gate.error).startswith("load raised ZeroDivisionError")
    function, _ = opened(lambda model: 1 // model, background=False, on_load_error="fail")
    function.take_side([1])
    with pytest.raises(RuntimeError, match="load raised ZeroDivisionError"):
        function.take_side([0])


@pytest.mark.parametrize("error", [Cancelled("away"), ChannelLost("away"), KeyboardInterrupt()])
def test_what_is_no_fault_of_a_model_is_not_tolerated(error: BaseException) -> None:
    def load(model: int) -> int:
        if model == 2:
            raise error
        return model

    function, gate = opened(load)
    function.take_side([1])
    assert gate.resumed.acquire(timeout=300)
    function.take_side([2])
    assert gate.failed.acquire(timeout=300)
    assert gate.error is error
    assert function.failures == 0


def test_a_model_that_could_not_be_published_is_left_out() -> None:
    function, gate = opened(lambda model: model.version)
    function.take_side([versioned(1)])
    assert gate.resumed.acquire(timeout=300)
    function.take_side([unpublished(2)])
    assert function.process([0]) == [(1, 0)]
    function.take_side([versioned(3)])
    wait_until(lambda: function.process([0]) == [(3, 0)])
    assert function.failures == 0  # its publisher's
    strict, gate = opened(lambda model: model.version, on_load_error="fail")
    strict.take_side([versioned(1)])
    assert gate.resumed.acquire(timeout=300)
    for function in (strict, opened(str)[0]):
        with pytest.raises(engine.ModelError, match="version 2 cannot be packed"):
            function.take_side([unpublished(2)])


def test_a_model_that_could_not_be_published_behind_one_that_is_loaded() -> None:
    may_load = threading.Event()
    function, gate = opened(lambda model: may_load.wait(60) and model.version)
    function.take_side([versioned(1), unpublished(2)])
    may_load.set()
    assert gate.resumed.acquire(timeout=300)
    assert function.process([0]) == [(1, 0)]


def test_a_load_that_fails_after_the_last_record_fails_nothing() -> None:
    loading, may_load = threading.Event(), threading.Event()

    def load(model: str) -> str:
        loading.set()
        assert may_load.wait(60)
        raise ValueError(model)

    function, gate = opened(load)
    function.take_side(["a"])
    assert loading.wait(60)
    function.close()
    may_load.set()
    wait_until(lambda: not any(t.name == "oka-load" for t in threading.enumerate()))
    assert gate.error is None
    assert not gate.failed.acquire(blocking=False)


def test_records_without_any_model_are_an_error() -> None:
    function, _ = opened(str)
    with pytest.raises(RuntimeError, match="ended without one and there are records"):
        function.process([1])


def test_cancel_wakes_who_waits_for_the_first_model() -> None:
    never = threading.Event()
    function, _ = opened(lambda model: never.wait(20))
    function.take_side([1])
    threading.Timer(0.02, function.cancel).start()
    with pytest.raises(Cancelled):
        function.process([1])
    never.set()


def test_what_is_closed_holds_no_model() -> None:
    function, _ = opened(lambda model: model, background=False)
    function.take_side([versioned(1)])
    function.close()
    assert function._current is None


def paced(count: int) -> Stream[int]:
    def numbers() -> Iterator[int]:
        for number in range(count):
            yield number
            time.sleep(0.0005)

    return source(Function(numbers)).named("numbers").with_parallelism(1)


def models(*values: Any) -> Stream[Any]:
    return source(Collection(values)).named("models").with_parallelism(1).broadcast()


CLOSED: list[str] = []
SEEN = threading.Event()
"""Of functions of the module, which travel by name: those in a test travel with copies."""


class Endless:
    """Models that come all at once, of a source that never ends by itself."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values

    def __call__(self) -> Iterator[Any]:
        try:
            yield from self.values
            yield from pauses(lambda: False)
        finally:
            CLOSED.append("closed")


def endless(*values: Any) -> Stream[Any]:
    return source(Function(Endless(values))).named("models").with_parallelism(1).broadcast()


def with_each(model: Any, batch: list[Any]) -> list[Any]:
    return [(model, each) for each in batch]


@pytest.mark.parametrize("transport", ["shm", "ipc", "tcp"])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_the_job_ends_with_the_records(transport: str, parallelism: int) -> None:
    CLOSED.clear()
    five = source(Collection(range(5))).map_batches_with_model(endless("a"), str, with_each)
    out = run(five.sink(Collect()), transport=transport, parallelism=parallelism)["collect"]
    assert sorted(out) == [("a", n) for n in range(5)]
    assert CLOSED == ["closed"]


@pytest.mark.parametrize("transport", ["shm", "ipc", "tcp"])
def test_the_job_ends_without_records_and_without_models(transport: str) -> None:
    none: list[int] = []
    empty = source(Collection(none)).map_batches_with_model(endless(), str, with_each)
    out = run(empty.sink(Collect()), transport=transport, parallelism=2)
    assert out == {"collect": []}


def test_records_that_wait_for_a_late_model_do_not_end_its_source() -> None:
    def late() -> Iterator[Any]:
        for _ in range(60):
            yield []
            time.sleep(0.005)
        while True:
            yield "late"
            time.sleep(0.005)

    held = source(Collection(range(5))).map_batches_with_model(
        source(Function(late)).with_parallelism(1).broadcast(), str, with_each
    )
    assert run(held.sink(Collect()))["collect"] == [("late", n) for n in range(5)]


def test_a_paced_source_of_models_is_not_waited_for() -> None:
    models = source(Function(lambda: iter("abc"), rate=1e-2)).with_parallelism(1).broadcast()
    five = source(Collection(range(5))).map_batches_with_model(models, str, with_each)
    assert run(five.sink(Collect()))["collect"] == [("a", n) for n in range(5)]


def test_models_that_somebody_else_reads_go_on() -> None:
    def emit() -> Iterator[Any]:
        for number in range(100):
            yield number
            time.sleep(0.002)

    models = source(Function(emit)).named("models").with_parallelism(1)
    five = source(Collection(range(5))).map_batches_with_model(models.broadcast(), str, with_each)
    out = run([five.sink(Collect()).named("five"), models.sink(Collect()).named("all")])
    assert out["all"] == list(range(100))
    assert [n for _, n in out["five"]] == list(range(5))


def test_two_steps_with_the_same_models_end() -> None:
    models = endless("a", "b")
    first = source(Collection(range(2000))).map_batches_with_model(models, str, with_each)
    second = first.rebalance().map_batches_with_model(models, str, with_each)
    out = run(second.sink(Collect()), batch_size=10)["collect"]
    assert [n for _, (_, n) in out] == list(range(2000))


def large() -> Iterator[Any]:
    for number in range(200):
        yield (number, bytes(100_000))


def waiting() -> Iterator[Any]:
    yield 0
    assert SEEN.wait(60)
    yield 1


def number_of(model: tuple[int, bytes]) -> int:
    if model[0] == 199:
        SEEN.set()
    return model[0]


def test_a_step_that_has_ended_does_not_hold_up_the_models_of_another() -> None:
    """Models that are far more than a channel holds go past a task that needs none any more."""
    SEEN.clear()
    models = source(Function(large)).named("models").with_parallelism(1).broadcast()
    few = source(Collection([1])).map_batches_with_model(models, lambda model: 0, with_each)
    late = source(Function(waiting)).with_parallelism(1)
    served = late.map_batches_with_model(models, number_of, with_each, load_in_background=False)
    out = run([few.sink(Collect()).named("few"), served.sink(Collect()).named("late")])
    assert out["few"] == [(0, 1)]
    assert [n for _, n in out["late"]] == [0, 1]
    assert out["late"][1] == (199, 1)


SERVED: set[str] = set()
"""The models that records have met."""


def one_by_one() -> Iterator[Any]:
    """Each model when a record has met the one before."""
    for model in "abc":
        yield model
        yield from pauses(lambda: model.upper() in SERVED)  # noqa: B023 - called at once


def until_the_last() -> Iterator[Any]:
    """Numbers until one has met the last model."""
    for number in itertools.count():
        yield [number]
        if "C" in SERVED:
            return


def served(model: str, batch: list[Any]) -> list[Any]:
    SERVED.add(model)
    return with_each(model, batch)


@pytest.mark.parametrize("background", [True, False])
def test_a_pipeline_of_lists(background: bool) -> None:
    SERVED.clear()
    pairs = source(Function(until_the_last)).map_batches_with_model(
        source(Function(one_by_one)).broadcast(), str.upper, served, load_in_background=background
    )
    out = run(pairs.sink(Collect()), batch_size=10)["collect"]
    assert [number for _, number in out] == list(range(len(out)))
    assert [model for model, _ in out] == sorted(model for model, _ in out)
    assert {model for model, _ in out} == {"A", "B", "C"}


def test_models_that_come_late_lose_nothing(tmp_path: Path) -> None:
    taken = tmp_path / "taken"

    def records() -> Iterator[int]:
        for number in range(5000):
            if number == 100:
                taken.touch()
            yield number

    def late() -> Iterator[Any]:
        yield from pauses(taken.exists)
        yield "late"

    held = (
        source(Function(records))
        .with_parallelism(1)
        .map_batches_with_model(
            source(Function(late)).broadcast(),
            str,
            lambda model, batch: [(model, n) for n in batch],
        )
    )
    out = run(held.map(lambda pair: pair).sink(Collect()), batch_size=10)["collect"]
    assert out == [("late", n) for n in range(5000)]


def test_no_records_and_no_models() -> None:
    none: list[int] = []
    empty = source(Collection(none)).map_batches_with_model(
        source(Collection(none)).broadcast(), str, lambda model, batch: batch
    )
    assert run(empty.sink(Collect())) == {"collect": []}


def test_no_model_for_records() -> None:
    none: list[int] = []
    held = source(Collection([1])).map_batches_with_model(
        source(Collection(none)).broadcast(), str, lambda model, batch: batch
    )
    with pytest.raises(engine.OperatorError, match=r"'map_batches_with_model'.*ended without one"):
        run(held.sink(Collect()))


def failing(
    load: Callable[[Any], Any], function: Callable[[Any, Any], Any]
) -> engine.OperatorError:
    pipeline = paced(100).map_batches_with_model(models("a"), load, function).sink(Collect())
    with pytest.raises(engine.OperatorError) as caught:
        run(pipeline)
    assert caught.value.operator == "map_batches_with_model"
    return caught.value


def broken(*_arguments: Any) -> Any:
    raise ValueError("no such layer")


def test_an_error_says_which_function_and_which_model() -> None:
    error = failing(broken, lambda model, batch: batch)
    assert error.error.endswith("load raised ValueError: no such layer, with 'a'")
    assert 'raise ValueError("no such layer")' in error.user_traceback
    error = failing(str, broken)
    assert error.error.endswith("function raised ValueError: no such layer, with 'a'")
    assert 'raise ValueError("no such layer")' in error.user_traceback
    error = failing(str, lambda model, batch: 7)
    assert "the function of map_batches_with_model returned int 7" in error.error


def test_wrong_use_is_refused_where_it_is() -> None:
    numbers, few = source(Collection([1])), source(Collection([1]))
    with pytest.raises(GraphError, match=r"divided among tasks \(forward\).*\n\nhint: call .broad"):
        numbers.map_batches_with_model(few, str, lambda model, batch: batch)
    with pytest.raises(GraphError, match="expected a stream of models"):
        numbers.map_batches_with_model("folder", str, lambda model, batch: batch)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="expected a function of 2 arguments"):
        numbers.map_batches_with_model(few.broadcast(), str, lambda batch: batch)  # type: ignore
    with pytest.raises(GraphError, match="load_in_background is 1"):
        MapBatchesWithModel(str, lambda model, batch: batch, 1)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="on_load_error is 'skip', expected 'keep' or 'fail'"):
        numbers.map_batches_with_model(
            few.broadcast(),
            str,
            lambda model, batch: batch,
            on_load_error="skip",  # type: ignore[arg-type]
        )


def two_inputs() -> Pipeline:
    served = paced(1).map_batches_with_model(models(1), str, lambda model, batch: batch)
    return served.named("served").sink(Collect())


def test_the_side_input_begins_a_chain_and_is_told_apart_in_the_plan() -> None:
    logical = logical_graph(two_inputs())
    job = chain(logical, 1)
    assert [vertex.name for vertex in job.vertices] == ["numbers", "models", "served -> collect"]
    assert [edge.input for edge in job.edges] == [0, 1]
    graph = engine.graph.expand(job)
    assert [channel.id for channel in graph.second_inputs(graph.vertices[2])] == [1]
    placement = Placement(dict.fromkeys(range(3), Node("n", "", {})))
    shown = text(logical, graph, placement)
    assert "served <- numbers (forward), models (second input, broadcast)" in shown
    assert "<- models (second input, broadcast)" in shown
    diagram = mermaid(logical, graph, placement)
    assert 'o1 -.->|"second input, broadcast"| o2' in diagram
    assert "t1 -.-> t2" in diagram


def test_a_side_input_is_for_operators_that_have_one() -> None:
    from engine.graph import Broadcast, Forward, LogicalEdge, LogicalGraph, LogicalOperator

    def graph(operator: BatchOperator, sides: list[bool]) -> LogicalGraph:
        of = [Collection([1]), Collection([1]), operator, Collect()]
        operators = [LogicalOperator(n, f"o{n}", each, None, {}) for n, each in enumerate(of)]
        edges = [LogicalEdge(n, 2, Broadcast(), side) for n, side in enumerate(sides)]
        return LogicalGraph(tuple(operators), (*edges, LogicalEdge(2, 3, Forward())))

    served = MapBatchesWithModel(str, lambda model, batch: batch)
    from operators.elementwise import MapBatches

    graph(served, [False, True])
    with pytest.raises(GraphError, match="'o2' has a side input alone"):
        graph(served, [True, True])
    with pytest.raises(GraphError, match="'o2' has no side input"):
        graph(served, [False, False])
    with pytest.raises(GraphError, match="'o2' has a second input, expected none"):
        graph(MapBatches(list), [False, True])


def test_a_stream_of_columns_meets_models_too() -> None:
    pa = pytest.importorskip("pyarrow")
    batch = pa.RecordBatch.from_pydict({"n": list(range(10))})
    doubled = source(Collection([batch])).map_batches_with_model(
        models(2), int, lambda factor, rows: [n * factor for n in rows["n"].to_pylist()]
    )
    assert run(doubled.sink(Collect()))["collect"] == [n * 2 for n in range(10)]
    out = source(Collection([batch])).map_batches_with_model(
        models(2), int, lambda factor, rows: rows.slice(factor)
    )
    (rest,) = run(out.sink(Collect()))["collect"]
    assert rest["n"].to_pylist() == list(range(2, 10))
