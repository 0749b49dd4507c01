"""Facts of Python: the meaning of expressions has them, and each function of one is lifted."""

import pytest

from engine.expression.lift import Lifted, lift
from tests.expressions import GaveUp, compare, evaluate
from tests.facts import FACTS


@pytest.mark.parametrize("fact", FACTS)
def test_an_expression_gives_what_the_function_gives(fact: str) -> None:
    function, values = FACTS[fact]
    lifted = lift(function, 1)
    assert isinstance(lifted, Lifted), lifted
    outcomes = {compare(lifted, function, value) for value in values}
    assert outcomes & {"equal", "failed"}


def test_an_object_of_a_subclass_is_nothing_that_a_run_may_compute_with() -> None:
    for fact in ("a subclass's length", "a subclass's sum", "a subclass's items", "a missing key"):
        function, values = FACTS[fact]
        lifted = lift(function, 1)
        assert isinstance(lifted, Lifted)
        with pytest.raises(GaveUp):
            evaluate(lifted.expression, values[0])
