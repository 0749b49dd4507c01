"""What operators declare of themselves, and that the engine minds it."""

from typing import Any

import pytest

from engine.errors import GraphError, OperatorError
from engine.graph import (
    BatchFunction,
    BatchOperator,
    Properties,
    PureFunction,
    TaskContext,
    chain,
    logical_graph,
)
from engine.testing import run
from operators import source
from operators.sinks import Collect
from operators.sources import Collection
from operators.stream import then


class Alone(BatchOperator):
    """An operator of a user's that runs in one task."""

    properties = Properties(parallelism=1)

    def open(self, context: TaskContext) -> BatchFunction:
        return PureFunction(list)


def test_any_operator_may_say_in_how_many_tasks_it_runs() -> None:
    numbers = source(Collection([1, 2]))
    graph = chain(logical_graph(then(numbers.inputs, Alone(), "alone").sink(Collect())), 3)
    assert [(vertex.name, vertex.parallelism) for vertex in graph.vertices] == [
        ("collection", 3),
        ("alone", 1),
        ("collect", 3),
    ]
    several = then(numbers.inputs, Alone(), "alone").with_parallelism(2).sink(Collect())
    assert chain(logical_graph(several), 3).vertices[1].parallelism == 2


def test_an_operator_that_says_nothing_takes_records_and_gives_records() -> None:
    assert Properties() == Properties(
        parallelism=None, on_error="fail", accepts_columns=False, limit=None, rate=None
    )
    assert Properties().side_outputs == ()
    assert Properties(on_error="side").side_outputs == ("errors",)
    assert Properties(outputs=("late",)).side_outputs == ("late",)
    assert Properties(outputs=("late",), on_error="side").side_outputs == ("late", "errors")


class Raw(BatchOperator):
    """An operator that counts bytes of the network's batches."""

    properties = Properties(accepts_encoded=True)

    def open(self, context: TaskContext) -> BatchFunction:
        return PureFunction(lambda batch: [type(batch).__name__])


def test_what_takes_encoded_batches_gets_them_wherever_it_is() -> None:
    assert run(source(Collection([1])).map(str).then(Raw()).sink(Collect())) == {
        "collect": ["Batch"]
    }


class Broken(BatchOperator):
    """An operator that opens no function of batches."""

    def open(self, context: TaskContext) -> BatchFunction:
        return len  # type: ignore[return-value]


def test_an_operator_that_opens_something_else_is_named() -> None:
    with pytest.raises(
        OperatorError, match=r"Broken\.open returned builtin_function_or_method"
    ) as e:
        run(source(Collection([1])).then(Broken()).sink(Collect()))
    assert e.value.operator == "broken"


class Beside(BatchOperator):
    """An operator with a side input that it does not take."""

    properties = Properties(side_input=True)

    def open(self, context: TaskContext) -> BatchFunction:
        return PureFunction(list)


def test_then_refuses_what_cannot_work() -> None:
    numbers = source(Collection([1]))
    with pytest.raises(
        GraphError, match="then\\(\\) got the class Alone, expected a BatchOperator"
    ):
        numbers.then(Alone)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="got a side input for 'alone', expected none"):
        numbers.then(Alone(), side=numbers)
    with pytest.raises(GraphError, match="got no side input for 'beside', expected one"):
        numbers.key_by().then(Beside())
    with pytest.raises(GraphError, match="got side=list \\[1\\], expected a stream"):
        numbers.then(Beside(), side=[1])  # type: ignore[arg-type]
    with pytest.raises(
        OperatorError, match="PureFunction takes no records of a side input"
    ) as caught:
        run(numbers.then(Beside(), side=numbers.broadcast()).sink(Collect()))
    assert caught.value.operator == "beside"


class Odd(BatchFunction):
    """Gives at its end, or for a batch, what is no batch."""

    def __init__(self, given: object, at_end: bool) -> None:
        self.given = given
        self.at_end = at_end

    def process(self, batch: Any) -> Any:
        return batch if self.at_end else self.given

    def on_end(self) -> Any:
        return [self.given] if self.at_end else ()


@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize("given", [None, 3, "ab", {"a": 1}, (1, 2), iter([1])])
def test_what_is_no_batch_is_told(given: object, at_end: bool) -> None:
    class Gives(BatchOperator):
        def open(self, context: TaskContext) -> BatchFunction:
            return Odd(given, at_end)

    pipeline = then(source(Collection([1])).inputs, Gives(), "odd").sink(Collect())
    with pytest.raises(OperatorError) as caught:
        run(pipeline)
    method = "on_end" if at_end else "process"
    assert caught.value.operator == "odd"
    assert f"{method}() gave {type(given).__name__} " in str(caught.value)
    assert caught.value.hint == "[] for no record, [record] for one"


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"on_error": "oops"}, "on_error is 'oops', expected one of 'fail', 'skip', 'side'"),
        ({"parallelism": 0}, "parallelism is 0, expected an integer >= 1"),
        ({"parallelism": "2"}, "parallelism is '2', expected an integer >= 1"),
        ({"limit": -1}, "limit is -1, expected an integer >= 0"),
    ],
)
def test_properties_that_mean_nothing_are_refused(properties: dict[str, Any], told: str) -> None:
    with pytest.raises(GraphError) as caught:
        Properties(**properties)
    assert caught.value.message == told


def test_properties_that_are_a_method_are_refused_in_the_class() -> None:
    with pytest.raises(GraphError, match=r"Mine.properties is a method[\s\S]*hint: put @property"):

        class Mine(BatchOperator):
            def properties(self) -> Properties:  # type: ignore[override]
                return Properties()

            def open(self, context: TaskContext) -> BatchFunction:
                raise AssertionError
