"""Collection, Function and RandomWords; TextFiles has a file of its own."""

import itertools
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from engine.errors import GraphError
from engine.graph import SourceOperator, TaskContext
from operators.sources import Collection, Function, RandomWords

Task = Callable[..., TaskContext]


def records(operator: SourceOperator[Any], context: TaskContext) -> list[Any]:
    out: list[Any] = []
    for item in operator.open(context):
        out += item if type(item) is list else [item]
    return out


@pytest.mark.parametrize("parallelism", [1, 2, 3, 7])
@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_a_collection_is_divided_without_loss(
    task: Task, parallelism: int, batch_size: int
) -> None:
    collection = Collection(range(5))
    shares = [
        records(collection, task(index, parallelism, batch_size)) for index in range(parallelism)
    ]
    assert list(itertools.chain(*shares)) == [0, 1, 2, 3, 4]
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_collection_keeps_records_that_are_lists(task: Task) -> None:
    assert list(Collection([[1], [2]]).open(task())) == [[[1], [2]]]


def test_a_collection_copies_what_it_is_given(task: Task) -> None:
    given = [1]
    collection = Collection(given)
    given.append(2)
    assert records(collection, task()) == [1]
    assert records(Collection(iter("ab")), task()) == ["a", "b"]


def test_a_collection_of_slices_is_pickled_without_what_they_are_cut_from(task: Task) -> None:
    table = pa.table({"n": range(20_000), "text": [f"text {n}" for n in range(20_000)]})
    collection = Collection(table.to_batches(max_chunksize=10), rate=5)
    data = pickle.dumps(collection)
    assert len(data) < 10 * table.nbytes
    again = pickle.loads(data)
    assert again.records == collection.records
    assert again.properties == collection.properties
    assert list(again.open(task(1, 3))) == list(collection.open(task(1, 3)))


def test_an_empty_collection(task: Task) -> None:
    assert list(Collection([]).open(task())) == []


def test_a_collection_of_something_else() -> None:
    with pytest.raises(GraphError, match="Collection got int 3, expected an iterable"):
        Collection(3)  # type: ignore[arg-type]


def test_a_function_with_and_without_a_context(task: Task) -> None:
    def own_index(context: TaskContext) -> Iterator[int]:
        yield context.index

    assert records(Function(own_index), task(3, 4)) == [3]
    assert records(Function(lambda: iter("ab")), task()) == ["a", "b"]
    assert records(Function(lambda context=None: ["a", context]), task())[1] == task()


def test_a_function_gives_records_or_lists_of_any_length(task: Task) -> None:
    def generate() -> Iterator[Any]:
        yield 1
        yield [2, 3, 4, 5, 6]
        yield []
        yield (7, 8)

    assert list(Function(generate).open(task(batch_size=2))) == [1, [2, 3], [4, 5], [6], [], (7, 8)]


def test_a_function_that_returns_nothing(task: Task) -> None:
    with pytest.raises(TypeError, match="returned NoneType None, expected a generator"):
        list(Function(lambda: None).open(task()))  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda a, b: [], "got a function of .*, expected no argument, the TaskContext"),
        ([1, 2], r"Function got list \[1, 2\], expected a generator function"),
        ((n for n in [1]), "Function got generator .*, expected a generator function"),
    ],
)
def test_a_function_of_the_wrong_kind(function: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        Function(function)


def test_random_words_come_from_one_dictionary(task: Task) -> None:
    source = RandomWords(length=5, words=10, count=2000, seed=7)
    dictionary = source.dictionary()
    assert len(set(dictionary)) == 10
    assert all(len(word) == 5 and word.isascii() and word.isalnum() for word in dictionary)
    first, second = records(source, task(0, 2)), records(source, task(1, 2))
    assert set(first) == set(second) == set(dictionary)
    assert first != second


def test_random_words_follow_from_the_seed(task: Task) -> None:
    source = RandomWords(count=50, seed=7)
    assert records(source, task()) == records(pickle.loads(pickle.dumps(source)), task())
    assert records(source, task()) != records(RandomWords(count=50, seed=8), task())
    assert source.dictionary() == RandomWords(seed=7, count=1).dictionary()


def test_batch_size_and_parallelism_do_not_change_a_draw(task: Task) -> None:
    source = RandomWords(count=20_000)
    assert records(source, task(batch_size=100)) == records(source, task(batch_size=100))
    assert len(records(source, task(batch_size=7))) == 20_000


@pytest.mark.parametrize("batch_size", [1, 10, 4096, 100_000])
def test_count_is_shared_out_exactly(task: Task, batch_size: int) -> None:
    source = RandomWords(count=10_001)
    batches = [list(source.open(task(index, 3, batch_size))) for index in range(3)]
    assert [sum(map(len, each)) for each in batches] == [3334, 3334, 3333]
    assert max(map(len, itertools.chain(*batches))) <= batch_size


def test_random_words_end_after_seconds(task: Task) -> None:
    assert records(RandomWords(seconds=0), task()) == []
    assert next(iter(RandomWords(seconds=60).open(task())))
    records(RandomWords(seconds=0.1), task())  # which ends
    endless = RandomWords().open(task(batch_size=10))
    assert sum(map(len, itertools.islice(endless, 5000))) == 50_000


def test_a_paced_source_looks_at_the_clock_often_enough(task: Task) -> None:
    source = RandomWords(seconds=10, rate=1000)
    assert source._block(task(0, 2, 1)) == 25
    assert source._block(task(0, 2, 10)) == 20
    assert source._block(task(0, 2, 100)) == 100


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"length": 0}, "length is 0, expected an integer >= 1"),
        ({"words": 0}, "words is 0"),
        ({"length": 1, "words": 63}, "words is 63, expected at most 62 different words"),
        ({"count": -1}, "count is -1"),
        ({"seconds": -1}, "seconds is -1"),
        ({"seed": "x"}, "seed is 'x'"),
        ({"rate": 0}, "rate is 0, expected records per second > 0"),
        ({"rate": "fast"}, "rate is 'fast'"),
    ],
)
def test_random_words_of_the_wrong_kind(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        RandomWords(**settings)


def test_every_letter_may_be_a_word(task: Task) -> None:
    assert len(set(RandomWords(length=1, words=62).dictionary())) == 62
