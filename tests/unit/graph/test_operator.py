"""What operators declare of themselves, and that the engine minds it."""

from collections.abc import Callable
from typing import Any

from engine.graph import BatchOperator, Properties, TaskContext, chain, logical_graph
from operators import source
from operators.sinks import Collect
from operators.sources import Collection
from operators.stream import then


class Alone(BatchOperator):
    """An operator of a user's that runs in one task."""

    properties = Properties(parallelism=1)

    def open(self, context: TaskContext) -> Callable[[Any], Any]:
        return list


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
