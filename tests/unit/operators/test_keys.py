"""Keys of several items, and what is said where a key makes no sense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import engine.testing
from engine import GraphError, OperatorError
from operators import Stream, source
from operators.sinks import Collect, Discard
from operators.sources import Collection

ROWS = [{"a": n % 2, "b": "xyz"[n % 3], "n": n} for n in range(12)]

parallelism = pytest.mark.parametrize("parallelism", [1, 2, 3])
pytestmark = pytest.mark.usefixtures("nothing_left")


def rows() -> Stream[Any]:
    return source(Collection(ROWS))


def columns() -> Stream[Any]:
    return source(
        Collection([pa.RecordBatch.from_pylist(ROWS[:5]), pa.RecordBatch.from_pylist(ROWS[5:])])
    )


def collected(stream: Stream[Any], **settings: Any) -> list[Any]:
    found: list[Any] = engine.testing.run(stream.sink(Collect()), **settings)["collect"]
    return found


def expected() -> dict[tuple[int, str], int]:
    sums: dict[tuple[int, str], int] = {}
    for row in ROWS:
        key = (row["a"], row["b"])
        sums[key] = sums.get(key, 0) + row["n"]
    return sums


@parallelism
def test_several_fields_are_one_key(parallelism: int) -> None:
    found = collected(rows().key_by("a", "b").sum("n", emit="final"), parallelism=parallelism)
    assert len(found) == 6
    assert dict(found) == expected()


@parallelism
def test_several_items_are_one_key(parallelism: int) -> None:
    tuples = rows().map(lambda row: (row["n"], row["b"], row["a"]))
    found = collected(tuples.key_by(2, 1).sum(0, emit="final"), parallelism=parallelism)
    assert dict(found) == expected()


@parallelism
def test_reduce_by_several_fields(parallelism: int) -> None:
    def add(x: dict[str, Any], y: dict[str, Any]) -> dict[str, Any]:
        return x | {"n": x["n"] + y["n"]}

    for emit in ("updates", "final"):
        stream = rows().key_by("a", "b").reduce(add, emit=emit)  # type: ignore[arg-type]
        found = collected(stream, parallelism=parallelism)
        assert {(row["a"], row["b"]): row["n"] for row in found} == expected()


@parallelism
@pytest.mark.parametrize("emit", ["updates", "final"])
def test_several_columns_are_one_key(parallelism: int, emit: Any) -> None:
    found = collected(columns().key_by("b", "a").sum("n", emit=emit), parallelism=parallelism)
    rows = [row for batch in found for row in batch.to_pylist()]
    assert {(row["a"], row["b"]): row["sum"] for row in rows} == expected()
    assert {tuple(row) for row in rows} == {("b", "a", "sum")}
    assert len(rows) == 6 or emit == "updates"


def test_rows_go_where_records_with_their_key_go() -> None:
    def where(stream: Stream[Any]) -> dict[Any, int]:
        tasks = stream.map_batches(_tell_task)
        return dict(collected(tasks, parallelism=3, batch_size=1))

    assert where(columns().key_by("b", "a")) == where(rows().key_by("b", "a"))


def _tell_task(batch: Any) -> list[Any]:
    import threading

    records = batch.to_pylist() if isinstance(batch, pa.RecordBatch) else batch
    task = int(threading.current_thread().name[-2])
    return [((record["b"], record["a"]), task) for record in records]


@pytest.mark.parametrize(
    ("make", "message", "hint"),
    [
        (
            lambda s: s.key_by(["a", "b"]),
            "key_by() got the list ['a', 'b'], expected an index >= 0, a field name or a function",
            "several items are several arguments: key_by('a', 'b')",
        ),
        (lambda s: s.key_by(("a",)), "key_by() got the tuple ('a',)", "key_by('a')"),
        (lambda s: s.key_by(()), "key_by() got the tuple ()", "call key_by() for the record"),
        (lambda s: s.key_by("a", len), "key_by() got builtin_function_or_method", "one function"),
        (lambda s: s.key_by("a", None), "key_by() got NoneType None among 2 arguments", "tuple"),
        (lambda s: s.key_by("a", "a"), "key_by() got 'a', 'a', expected each once", ""),
        (lambda s: s.key_by(0, -1), "key_by() got -1, expected an index >= 0", ""),
        (lambda s: s.key_by(2.5), "key_by() got float 2.5, expected an index >= 0, a field", ""),
        (lambda s: s.top(), ".top() needs to know what the key", ".key_by(0).top(...)"),
        (lambda s: s.reduce(max), ".reduce() needs to know", ".key_by(lambda record: None)"),
        (lambda s: s.key_by(0).map(len), ".map() follows .key_by()", "call .map() before"),
    ],
)
def test_wrong_use_says_what_is_right(make: Callable[[Any], Any], message: str, hint: str) -> None:
    with pytest.raises(GraphError) as raised:
        make(source(Collection(["a"])))
    assert message in str(raised.value)
    assert hint in (raised.value.hint or "")


def fails(stream: Stream[Any], **settings: Any) -> str:
    with pytest.raises(OperatorError) as raised:
        engine.testing.run(stream.sink(Discard()), **settings)
    return str(raised.value)


@parallelism
@pytest.mark.parametrize(
    "flow",
    [
        lambda keyed: keyed.count(),
        lambda keyed: keyed.reduce(max),
        lambda keyed: keyed.reduce(max, on_error="skip"),
    ],
)
def test_an_unhashable_key_says_so_and_what_to_do(flow: Any, parallelism: int) -> None:
    told = fails(flow(source(Collection([1])).key_by(lambda n: [n])), parallelism=parallelism)
    assert "not hashable" in told
    assert "hint: make it a tuple" in told


@parallelism
@pytest.mark.parametrize(
    ("records", "flow", "hint"),
    [
        ([("a", 1)], lambda s: s.key_by(0).sum(), "an item of it by its index, such as sum(1)"),
        ([["a", 1]], lambda s: s.key_by(0).mean(), "an item of it by its index, such as mean(1)"),
        ([{"a": 1}], lambda s: s.key_by("a").max(), 'a field of it by its name, such as max("n")'),
        ([("a", 1)], lambda s: s.key_by(lambda r: r[0]).sum(), "such as sum(1)"),
        (
            [("a", "b")],
            lambda s: s.key_by(0).sum(1),
            "make numbers of texts by map first: float(x)",
        ),
    ],
)
def test_an_aggregation_of_a_whole_record_says_how_to_name_an_item(
    records: list[Any], flow: Any, hint: str, parallelism: int
) -> None:
    assert hint in fails(flow(source(Collection(records))), parallelism=parallelism)


@pytest.mark.parametrize(("returned", "what"), [(None, "None"), (5, "an object of type int")])
def test_flat_map_says_what_its_function_must_return(returned: Any, what: str) -> None:
    told = fails(source(Collection(["a"])).flat_map(lambda _: returned))
    assert f"the function of flat_map returned {what}, expected an iterable of records" in told
    assert "hint: return a list: [] for no record, [record] for one" in told
    assert "on record 'a'" in told


def test_a_type_error_of_the_users_stays_as_it_is() -> None:
    told = fails(source(Collection(["a"])).flat_map(lambda _: map(int, [None])))
    assert "int() argument must be" in told
    told = fails(source(Collection(["a"])).flat_map(lambda _: iter(None)))  # type: ignore[call-overload]
    assert "'NoneType' object is not iterable" in told
