"""map_batches."""

from collections.abc import Callable
from typing import Any

import pytest

from engine.errors import OperatorError
from operators import source
from operators.sources import Collection

Emitted = Callable[..., list[Any]]


def test_a_function_gets_whole_batches(emitted: Emitted) -> None:
    stream = source(Collection([1, 2, 3, 4, 5])).map_batches(lambda batch: [len(batch)])
    assert emitted(stream, batch_size=2) == [2, 2, 1]


def test_max_records(emitted: Emitted) -> None:
    stream = source(Collection([1, 2, 3, 4, 5])).map_batches(lambda b: [len(b)], max_records=2)
    assert emitted(stream, batch_size=100) == [2, 2, 1]


def test_an_empty_batch_does_not_reach_the_function(emitted: Emitted) -> None:
    stream = source(Collection([1, 2])).filter(lambda n: n > 1).map_batches(lambda b: [len(b)])
    assert emitted(stream, batch_size=1) == [1]


def test_after_a_key_function_records_come_without_their_keys(emitted: Emitted) -> None:
    stream = source(Collection([1, 2, 3])).key_by(lambda n: n % 2).map_batches(lambda b: b[::-1])
    assert emitted(stream) == [3, 2, 1]


def test_what_is_not_a_list_is_refused(emitted: Emitted) -> None:
    def first(batch: list[int]) -> Any:
        return batch[0]

    with pytest.raises(OperatorError, match="returned int 1, expected a list"):
        emitted(source(Collection([1])).map_batches(first))
