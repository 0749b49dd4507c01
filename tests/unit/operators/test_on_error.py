"""Records that a function fails on: left out or put aside, and counted in any case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import engine.testing
from engine import GraphError
from engine.config import JobConfig
from engine.job import JobHandle
from engine.network import Cancelled
from engine.plan import Plan
from engine.task.rescue import Rescuer
from engine.testing.threads import ThreadLauncher
from operators import Stream, source
from operators.sinks import Collect, Discard
from operators.sources import Collection

TEXTS = ["1", "x", "2", "", "3", "4"]

parallelism = pytest.mark.parametrize("parallelism", [1, 2, 3])
batch_size = pytest.mark.parametrize("batch_size", [1, 4, 100])
pytestmark = pytest.mark.usefixtures("nothing_left")


class Named(NamedTuple):
    name: str
    number: int


def texts(items: list[Any] = TEXTS) -> Stream[Any]:
    return source(Collection(items))


def result_of(*pipelines: Any, **settings: Any) -> engine.JobResult:
    config = JobConfig.of({"progress": "none", **settings})
    return JobHandle(Plan.of(list(pipelines), config), ThreadLauncher()).wait_finished()


def even(text: str) -> bool:
    return int(text) % 2 == 0


def digits(text: str) -> Any:
    yield from range(int(text))
    yield 100 // (int(text) - 4)


FLOWS: list[tuple[Callable[..., Stream[Any]], str, list[Any], list[str]]] = [
    (lambda s, **k: s.map(int, **k), "map", [1, 2, 3, 4], ["", "x"]),
    (lambda s, **k: s.filter(even, **k), "filter", ["2", "4"], ["", "x"]),
    (
        lambda s, **k: s.flat_map(digits, **k),
        "flat_map",
        [-34, 0, -50, 0, 1, -100, 0, 1, 2],
        ["", "4", "x"],
    ),
    (
        lambda s, **k: s.key_by(int, **k).map_batches(list),
        "key_by",
        ["1", "2", "3", "4"],
        ["", "x"],
    ),
    (
        lambda s, **k: (
            s.with_parallelism(1)
            .key_by(lambda _: 0)
            .reduce(  # in their order
                lambda a, b: f"{int(a) + int(b)}", emit="final", **k
            )
        ),
        "reduce",
        ["10"],
        ["", "x"],
    ),
]
flows = pytest.mark.parametrize(("flow", "operator", "good", "bad"), FLOWS)


@pytest.mark.table(3)
@flows
@parallelism
@batch_size
def test_bad_records_are_left_out_and_counted(
    flow: Any, operator: str, good: list[Any], bad: list[str], parallelism: int, batch_size: int
) -> None:
    pipeline = flow(texts(), on_error="skip").sink(Collect())
    result = result_of(pipeline, parallelism=parallelism, batch_size=batch_size)
    assert sorted(result.output) == sorted(good)
    counted = {each.name: each for each in result.statistics.operators}
    assert counted[operator].errors == len(bad)
    assert sum(each.errors for each in counted.values()) == len(bad)
    first = counted[operator].first_error
    assert first is not None
    assert any(first.endswith(f"on {text!r}") for text in bad), first
    assert f"{operator}: {len(bad)} records" in str(result)
    (told,) = [each for each in result.to_dict()["operators"] if each["name"] == operator]
    assert (told["errors"], told["first_error"]) == (len(bad), first)


@pytest.mark.table(3)
@flows
@parallelism
@batch_size
def test_bad_records_go_to_the_side_output(
    flow: Any, operator: str, good: list[Any], bad: list[str], parallelism: int, batch_size: int
) -> None:
    if operator == "key_by":
        keyed = texts().key_by(int, on_error="side")
        main, errors = keyed.map_batches(list), keyed.side("errors")
    else:
        main = flow(texts(), on_error="side")
        errors = main.side("errors")
    pipelines = [main.sink(Collect()), errors.sink(Collect()).named("errors")]
    result = result_of(*pipelines, parallelism=parallelism, batch_size=batch_size)
    assert sorted(result.outputs["collect"]) == sorted(good)
    assert sorted(record for record, _ in result.outputs["errors"]) == bad
    assert {words for record, words in result.outputs["errors"] if record == "x"} == {
        "ValueError: invalid literal for int() with base 10: 'x'"
    }
    assert sum(each.errors for each in result.statistics.operators) == len(bad)


def test_the_errors_alone_can_be_read() -> None:
    errors = texts().map(int, on_error="side").side("errors").map(lambda pair: pair[0])
    assert engine.testing.run(errors.sink(Collect())) == {"collect": ["x", ""]}


def test_a_function_is_called_once_with_each_record() -> None:
    calls: list[str] = []  # of the task: the function travels with a copy

    def numbered(text: str) -> tuple[int, int]:
        calls.append(text)
        return int(text), len(calls)

    numbers = texts().map(numbered, on_error="skip").sink(Collect())
    assert engine.testing.run(numbers)["collect"] == [(1, 1), (2, 3), (3, 5), (4, 6)]


@pytest.mark.parametrize("key", [("n",), ("n", "m"), ()])
@parallelism
def test_records_without_a_key_can_be_left_out(key: tuple[str, ...], parallelism: int) -> None:
    records: list[Any] = [{"n": 1, "m": 1}, {"n": 2}, {"n": [], "m": 1}, {"n": 3, "m": 3}, None, 7]
    counts = texts(records).key_by(*key, on_error="skip").count(emit="final")
    found = engine.testing.run(counts.sink(Collect()), parallelism=parallelism)["collect"]
    expected = {("n",): {1, 2, 3}, ("n", "m"): {(1, 1), (3, 3)}, (): {None, 7}}[key]
    assert {key for key, _ in found} == expected


@parallelism
def test_what_cannot_be_a_key_anywhere_is_a_bad_record(parallelism: int) -> None:
    records: list[Any] = ["abc", ("a", 1), ["b", 2], {0: "x"}, ({1}, 1), ({}, 1), 5, ()]
    records.append(Named("c", 3))
    keyed = texts(records).key_by(0, on_error="side")
    counts = keyed.count(emit="final").sink(Collect())
    bad = keyed.side("errors").map(lambda pair: pair[1]).sink(Collect()).named("bad")
    found = engine.testing.run([counts, bad], parallelism=parallelism)
    assert sorted(found["collect"]) == [("a", 1), ("b", 1), ("c", 1)]
    assert sorted(found["bad"]) == [
        "IndexError: tuple index out of range",
        "TypeError: a dict cannot be a key: it is not hashable",
        "TypeError: a set cannot be a key: it is not hashable",
        *(
            f"TypeError: the record is a {kind}, expected a tuple or list"
            for kind in ("dict", "int", "str")
        ),
    ]


def test_an_unhashable_key_is_a_bad_record() -> None:
    keyed = texts([1, 2, 3]).key_by(lambda n: [n] if n == 2 else n, on_error="skip")
    found = engine.testing.run(keyed.count().sink(Collect()), parallelism=2)["collect"]
    assert sorted(found) == [(1, 1), (3, 1)]


def test_a_chain_is_not_broken_by_a_side_output() -> None:
    numbers = texts().map(int, on_error="side")
    pipelines = [numbers.map(str).sink(Discard()), numbers.side("errors").sink(Collect())]
    job = Plan.of(pipelines, JobConfig()).execution.job
    assert [vertex.name for vertex in job.vertices] == [
        "collection -> map -> map-2 -> discard",
        "collect",
    ]
    assert [edge.output for edge in job.edges] == [("map", "errors")]


def test_a_failure_elsewhere_still_fails_the_job() -> None:
    pipeline = texts().map(int, on_error="skip").map(lambda n: 1 // (n - 3)).sink(Discard())
    with pytest.raises(
        engine.OperatorError, match=r"operator 'map-2' .* on record 3: ZeroDivision"
    ):
        engine.testing.run(pipeline)


def test_a_cancelled_job_is_no_bad_record() -> None:
    rescue = Rescuer(None)
    with pytest.raises(Cancelled):
        rescue("a record", Cancelled("as a model says that is waited for"))
    assert rescue.errors == 0


def test_a_bad_record_that_cannot_travel_fails_the_job() -> None:
    stream = texts().map(lambda text: object()).map(len, on_error="side")
    pipelines = [stream.sink(Discard()), stream.side("errors").sink(Collect())]
    with pytest.raises(engine.OperatorError, match=r"operator 'map-2'.*object"):
        engine.testing.run(pipelines)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: texts().map(int, on_error="ignore"), "map() got on_error='ignore', expected"),
        (lambda: texts().key_by(0, on_error=None), "key_by() got on_error=None"),
        (lambda: texts().map(int).side("errors"), "side() got 'errors', expected a side output: "),
        (lambda: texts().map(int, on_error="side").side("bad"), "those of 'map' are errors"),
        (lambda: texts().rebalance().side("errors"), ".side() follows rebalance()"),
        (
            lambda: texts().map(int, on_error="side").side("errors").named("x"),
            ".named() follows side()",
        ),
        (
            lambda: engine.testing.run(texts().map(int, on_error="side").sink(Discard())),
            "operator 'map' sends records that fail to its side output 'errors', and nothing",
        ),
    ],
)
def test_wrong_use_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(GraphError) as raised:
        make()
    assert message in str(raised.value)
