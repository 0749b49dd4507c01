"""The fluent API: what it builds and what it refuses."""

from collections.abc import Callable
from typing import Any

import pytest

from engine.errors import GraphError
from operators import KeyedStream, Pipeline, Stream, source
from operators.sinks import Collect, Counts
from operators.sources import Collection, Function

Emitted = Callable[..., list[Any]]


def words(*records: str) -> Stream[str]:
    return source(Collection(records))


def test_map(emitted: Emitted) -> None:
    assert emitted(words("a", "b").map(str.upper)) == ["A", "B"]


def test_flat_map(emitted: Emitted) -> None:
    assert emitted(words("to be", "", "or not").flat_map(str.split)) == ["to", "be", "or", "not"]


def test_filter(emitted: Emitted) -> None:
    assert emitted(words("a", "bb", "c").filter(lambda word: len(word) == 1)) == ["a", "c"]


def test_union(emitted: Emitted) -> None:
    assert sorted(emitted(words("a").union(words("b"), words("c", "d")))) == ["a", "b", "c", "d"]


def test_streams_are_immutable() -> None:
    stream = words("a")
    before = stream.inputs
    stream.map(str).named("x")
    stream.with_parallelism(2)
    assert stream.inputs is before
    assert before[0].source.parallelism is None


def test_building_calls_nothing() -> None:
    def fail(*_: object) -> Any:
        raise AssertionError("called")

    one, two = (lambda record: fail(record)), (lambda a, b: fail(a, b))
    source(Function(fail)).map(one).filter(one).key_by(one).reduce(two).sink(Collect())


WRONG: list[tuple[str, Callable[[Any], object]]] = [
    (r"map\(\) got int 3, expected a function", lambda s: s.map(3)),
    (r"filter\(\) got NoneType None, expected a function", lambda s: s.filter(None)),
    (r"flat_map\(\) got list \['a'\], expected a function", lambda s: s.flat_map(["a"])),
    (r"map_batches\(\) got str 'x', expected a function", lambda s: s.map_batches("x")),
    (r"reduce\(\) got int 1, expected a function", lambda s: s.key_by().reduce(1)),
    (
        r"map\(\) got .*\(a, b\), expected a function of 1 arg",
        lambda s: s.map(lambda a, b: a),
    ),
    (r"map\(\) got .*<lambda>\(\), expected a function of 1 arg", lambda s: s.map(lambda: 1)),
    (
        r"reduce\(\) got .*\(a\), expected a function of 2 arg",
        lambda s: s.key_by().reduce(lambda a: a),
    ),
    (r"key_by\(\) got .*\(a, b\), expected a function of 1", lambda s: s.key_by(lambda a, b: a)),
    (r"key_by\(\) got -1, expected an index >= 0 or a field name", lambda s: s.key_by(-1)),
    (r"key_by\(\) got True, expected an index", lambda s: s.key_by(True)),
    (r"key_by\(\) got float 1.5, expected an index >= 0, a field name or", lambda s: s.key_by(1.5)),
    (r"sum\(\) got -1, expected an index", lambda s: s.key_by().sum(-1)),
    (r"min\(\) got \(1, 2\), expected an index", lambda s: s.key_by().min((1, 2))),
    (r"max_records is 0, expected an integer >= 1", lambda s: s.map_batches(list, max_records=0)),
    (r"union\(\) got no stream", lambda s: s.union()),
    (r"union\(\) got list \['a'\], expected streams", lambda s: s.union(["a"])),
    (r"with_parallelism\(\) got 0, expected an integer >= 1", lambda s: s.with_parallelism(0)),
    (r"with_parallelism\(\) got True", lambda s: s.with_parallelism(True)),
    (r"with_parallelism\(\) got '2'", lambda s: s.with_parallelism("2")),
    (r"with_resources\(\) got cpus=-1", lambda s: s.with_resources(cpus=-1)),
    (r"with_resources\(\) got nothing", lambda s: s.with_resources()),
    (r"got the resource 'gpu', expected 'gpus'", lambda s: s.with_resources(gpu=1)),
    (r"got the resource 'CPU', expected 'cpus'", lambda s: s.with_resources(CPU=1)),
    (r"got the resource 'num_gpus', expected 'gpus'", lambda s: s.with_resources(num_gpus=1)),
    (r"named\(\) got '', expected a text", lambda s: s.named("")),
    (r".named\(\) follows rebalance\(\), expected an operator", lambda s: s.rebalance().named("x")),
    (r".named\(\) follows union\(\)", lambda s: s.union(s).named("x")),
    (r"sink\(\) got the class Collect, expected a sink", lambda s: s.sink(Collect)),
    (r"sink\(\) got builtin_function_or_method", lambda s: s.sink(len)),
    (r".map\(\) follows .sink\(\), which ends a stream", lambda s: s.sink(Collect()).map(str)),
    (r".sink\(\) follows .sink\(\)", lambda s: s.sink(Collect()).sink(Collect())),
    (r"source\(\) got list \[1\], expected a source", lambda _: source([1])),  # type: ignore[arg-type]
    (r"source\(\) got the class Collection", lambda _: source(Collection)),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("message", "wrong"), WRONG, ids=[message for message, _ in WRONG])
def test_wrong_use_fails_when_the_graph_is_built(
    message: str, wrong: Callable[[Stream[str]], object]
) -> None:
    with pytest.raises(GraphError, match=message):
        wrong(words("a"))


def test_a_coroutine_function_is_refused() -> None:
    async def later(word: str) -> str:
        return word

    with pytest.raises(GraphError, match=r"got the coroutine function .*later"):
        words("a").map(later)


def test_functions_with_defaults_and_built_in_ones_are_fine() -> None:
    def doubled(word: str, times: int = 2) -> str:
        return word * times

    stream = words("a")
    stream.map(doubled).map(len).map(str).map("{}".format)
    stream.key_by(hash).reduce(max)


def test_a_pipeline_is_still_an_ordinary_object() -> None:
    pipeline = words("a").sink(Collect())
    assert isinstance(pipeline, Pipeline)
    assert not hasattr(pipeline, "anything_else")


def test_types_of_handles() -> None:
    keyed = words("a").key_by()
    assert isinstance(keyed, KeyedStream)
    assert isinstance(keyed.count(), Stream)
    pipeline = keyed.count().sink(Counts()).named("words").with_parallelism(1)
    assert pipeline.declaration.name == "words"
    assert pipeline.with_resources(cpus=2).declaration.resources == {"cpus": 2.0}
