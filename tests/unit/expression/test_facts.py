"""Facts of Python: the meaning of expressions has them, and each function of one is lifted."""

import copy

import pytest

from engine.expression.lift import Lifted, lift
from tests.expressions import GaveUp, evaluate
from tests.facts import FACTS
from tests.functions import same


@pytest.mark.parametrize("fact", FACTS)
def test_an_expression_gives_what_the_function_gives(fact: str) -> None:
    function, values = FACTS[fact]
    lifted = lift(function, 1)
    assert isinstance(lifted, Lifted), lifted
    compared = 0
    for value in values:
        try:
            got = evaluate(lifted.expression, value)
        except GaveUp:
            continue
        except Exception as error:  # noqa: BLE001  # whatever it is
            got = error
        compared += 1
        try:
            wanted = function(copy.copy(value) if isinstance(value, dict) else value)
        except Exception:  # noqa: BLE001  # the same for the function
            assert isinstance(got, Exception), (value, got)
        else:
            assert same(got, wanted), (value, got, wanted)
    assert compared


def test_an_object_of_a_subclass_is_nothing_that_a_run_may_compute_with() -> None:
    for fact in ("a subclass's length", "a subclass's sum", "a subclass's items", "a missing key"):
        function, values = FACTS[fact]
        lifted = lift(function, 1)
        assert isinstance(lifted, Lifted)
        with pytest.raises(GaveUp):
            evaluate(lifted.expression, values[0])
