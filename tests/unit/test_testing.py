"""`engine.testing`: a pipeline in this process."""

import pytest

import engine
from engine.testing import run
from operators import source
from operators.sinks import Collect, Counts
from operators.sources import Collection

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.mark.parametrize("parallelism", [1, 3])
def test_words_are_counted_in_this_process(parallelism: int) -> None:
    words = source(Collection(["a", "b", "a"])).key_by().count().sink(Counts())
    assert run(words, parallelism=parallelism) == {"counts": {"a": 2, "b": 1}}


def test_a_failure_is_raised() -> None:
    with pytest.raises(engine.OperatorError, match=r"operator 'map' .* on record 0"):
        run(source(Collection([1, 0])).map(lambda n: 1 / n).rebalance().sink(Collect()))
