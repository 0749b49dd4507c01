"""Programs of lifted functions over encoded records: the results of the functions, or none."""

import warnings
from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from engine.expression.lift import Lifted, lift
from engine.network import Batch, EncodeError, Program
from tests.facts import FACTS
from tests.functions import same

Function = Callable[[Any], Any]


def program(*stages: tuple[str, Function]) -> Program:
    """A program of these functions, all of which can be lifted."""
    lifted = [(stage, lift(function, 1)) for stage, function in stages]
    assert all(isinstance(of, Lifted) for _, of in lifted), lifted
    return Program([(s, of.expression.to_data()) for s, of in lifted if isinstance(of, Lifted)])


def ran(made: Program, records: list[Any]) -> Any:
    """The decoded results, or why there are none; the same of encoded records and of a list."""
    got = made.run(Batch.from_list(records))
    of_list = made.run(records)
    if isinstance(got, str):
        assert isinstance(of_list, str)
        return got
    assert isinstance(of_list, Batch)
    assert of_list.__reduce__() == got.__reduce__()
    return got.decode()


@pytest.mark.parametrize("fact", FACTS)
def test_a_program_gives_what_the_function_gives(fact: str) -> None:
    function, values = FACTS[fact]
    made = program(("map", function))
    computed = 0
    for value in values:
        try:
            batch = Batch.from_list([value])
        except EncodeError:
            assert isinstance(made.run([value]), str)
            continue
        got = made.run(batch)
        if isinstance(got, str):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `~True`
            wanted = [function(of) for of in batch.decode()]
        assert same(got.decode(), wanted), (value, got.decode(), wanted)
        assert got.__reduce__() == Batch.from_list(wanted).__reduce__()
        computed += 1
    assert computed or fact in NEVER


def test_stages_run_one_after_the_other() -> None:
    made = program(
        ("flat_map", lambda line: line.split()),
        ("filter", lambda word: word != "the"),
        ("map", lambda word: (word.lower(), 1)),
        ("key", lambda pair: pair[0]),
    )
    got = ran(made, ["the Cat saw", "", "the dog"])
    assert got == [("cat", ("cat", 1)), ("saw", ("saw", 1)), ("dog", ("dog", 1))]
    assert made.counts == [5, 3, 3, 3]


def test_nothing_comes_of_nothing() -> None:
    made = program(("map", lambda record: record["a"]), ("filter", lambda a: a > 1))
    assert ran(made, []) == []
    assert ran(made, [{"a": 1}, {"a": 0}]) == []
    assert made.counts == [2, 0]


def test_results_do_not_depend_on_what_other_records_are() -> None:
    made = program(("map", lambda record: (record["b"], record.get("a"), len(record))))
    records: list[dict[str, Any]] = [
        {"a": 1, "b": 2},
        {"b": 3, "a": "x"},
        {"b": None},
        {"c": 0, "b": (1,), "a": []},
    ] * 50
    assert ran(made, records) == [(r["b"], r.get("a"), len(r)) for r in records]


def test_records_of_many_kinds_follow_each_other() -> None:
    made = program(
        (
            "map",
            lambda record: {"id": record["id"], "price": record.get("price", 0), "all": record},
        ),
        ("filter", lambda record: record["price"] < 400),
        ("key", lambda record: record["id"]),
    )
    long = {f"a name of more than sixteen bytes {n}": n for n in range(20)}
    kinds: list[dict[str, Any]] = [
        {"id": 1, "price": 300},
        {"price": 70_000, "id": "x"},
        {"id": 2**40},
        {"id": "a word of more than thirty-one bytes", "price": 1.5, "tags": [1, (2,)]},
        {**long, "id": None, "price": -1},
        {"price": 2, "id": (1, 2), 7: "no name", (): 0},
    ]
    rng = Random(1)
    records = [rng.choice(kinds) for _ in range(500)]
    mapped = [{"id": r["id"], "price": r.get("price", 0), "all": r} for r in records]
    assert ran(made, records) == [(m["id"], m) for m in mapped if m["price"] < 400]


def test_a_field_that_nobody_sees_in_the_end_must_be_there() -> None:
    made = program(
        ("map", lambda record: (record["a"], record["b"])), ("filter", lambda pair: pair[0] > 1)
    )
    assert ran(made, [{"a": 0, "b": 1}, {"a": 0}]) == "a key that is missing"


@pytest.mark.parametrize("digits", range(-22, 1))
def test_integers_are_rounded_half_to_even(digits: int) -> None:
    made = program(("map", lambda number: round(number, digits)))
    numbers = [0, 5, 15, 25, -5, -15, -26, 2**63 - 1, -(2**63), True]
    numbers += [sign * 5 * 10**n for n in range(19) for sign in (1, -1, 3) if 3 * 5 * 10**n < 2**63]
    for number in numbers:
        wanted = round(number, digits)
        if abs(wanted) < 2**63:
            assert same(ran(made, [number]), [wanted]), number


def test_what_is_only_passed_on_may_be_anything() -> None:
    made = program(("filter", lambda pair: pair[0] > 1), ("map", lambda pair: [pair[1], pair]))
    values: list[Any] = [2**70, {1, 2}, frozenset("a"), b"", [[]], {"a": (1,)}, "\ud800"]
    assert ran(made, [(2, value) for value in values]) == [[v, (2, v)] for v in values]


@pytest.mark.parametrize(
    ("function", "record", "reason"),
    [
        (lambda number: number + 1, 2**63 - 1, "an integer beyond 64 bits"),
        (lambda number: number + 1, 2**70, "a value of a type that is only passed on"),
        (lambda record: record["a"], {"b": 1}, "a key that is missing"),
        (lambda items: items[1], (1,), "an index out of range"),
        (lambda number: 1 // number, 0, "a division by zero"),
        (
            lambda text: text.upper(),
            "ß",
            "text beyond ASCII where the tables of Unicode are needed",
        ),
        (lambda number: number / 3, 2**53 + 1, "an integer that a float does not hold"),
        (lambda number: round(number, -1), 15.0, "a float that is rounded to tens"),
        (lambda number: number + "a", 1, "types that the operation does not take"),
        (lambda record: {record: 1}, [1], "a key that cannot be hashed"),
    ],
)
def test_what_is_unusual_is_left_to_the_function(
    function: Function, record: Any, reason: str
) -> None:
    assert ran(program(("map", function)), [record]) == reason


def test_one_unusual_record_is_enough() -> None:
    made = program(("map", lambda number: number * 2))
    assert ran(made, [1, 2, None]) == "types that the operation does not take"
    assert ran(made, [1, 2]) == [2, 4]


def test_depth_is_that_of_the_gate() -> None:
    deep: Any = ()
    for _ in range(198):
        deep = (deep,)
    made = program(("map", lambda record: (record, 1)))
    assert ran(made, [deep]) == [(deep, 1)]
    assert ran(made, [(deep,)]) == "a value nested too deeply"
    with pytest.raises(EncodeError):
        Batch.from_list([((deep,), 1)])


def test_columns_and_batches_that_were_released() -> None:
    made = program(("map", lambda record: record))
    columns = Batch.from_columns(pa.record_batch({"a": [1]}))
    assert made.run(columns) == "columns"


def test_bytes_that_are_no_records() -> None:
    made = program(("map", lambda record: record["a"]))
    for data in (b"", b"\xc1", b"\x81\xa1a", b"\xdf\xff\xff\xff\xff", b"\x81\xa1a\x01\x01"):
        assert made.run(Batch.from_bytes(data, 1)) == "bytes that are no records"


@pytest.mark.parametrize(
    ("stage", "steps", "reason"),
    [
        ("map", [("matrix product", [0, 0], None)], "operation matrix product"),
        ("map", [("call", [0], "input")], "input() of 1 arguments"),
        ("map", [("method", [0], "format")], ".format() of 0 arguments"),
        ("map", [("format", [0], ("", "%H"))], "the format"),
        ("map", [("constant", [], 2**64)], "an integer beyond 64 bits"),
        ("reduce", [("item", [0, 0], None)], "a stage"),
    ],
)
def test_operations_that_are_not_known(stage: str, steps: list[Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason.replace("(", r"\(").replace(")", r"\)")):
        Program([(stage, (1, (steps, ("return", 1))))])


def test_many_records_and_large_ones() -> None:
    made = program(("map", lambda text: (text, len(text))))
    texts = ["a" * length for length in (0, 31, 32, 255, 256, 65_535, 65_536, 1 << 20)] * 20
    assert ran(made, texts) == [(text, len(text)) for text in texts]


NEVER = ("split by nothing", "slice of step 0", "remainder of a text")
"""What raises for every value, or is left to the function."""


def test_many_small_records_behind_a_large_one_take_no_memory_for_large_ones() -> None:
    made = program(("map", lambda text: (text, 1)))
    large = "a" * 10_000_000
    assert ran(made, [large]) == [(large, 1)]
    assert ran(made, ["a"] * 1_000_000) == [("a", 1)] * 1_000_000  # as large ones 10 TB
