"""When results of both ways are the same, for `native="check"`."""

from __future__ import annotations

import math
from typing import Any

import pytest

from engine.network import Batch
from engine.task.compared import NativeDiffers, check_alike

NEGATIVE_NAN = math.copysign(math.nan, -1.0)
ALIKE: list[tuple[Any, Any]] = [
    (1, 1),
    (("a", 1.5), ("a", 1.5)),
    (math.nan, math.nan),
    (NEGATIVE_NAN, math.nan),
    ({"a": (NEGATIVE_NAN,)}, {"a": (math.nan,)}),
]
DIFFERENT: list[tuple[Any, Any]] = [
    (1, True),
    (1, 1.0),
    (0.0, -0.0),
    (math.nan, None),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ((1,), [1]),
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_alike(one: Any, other: Any) -> None:
    check_alike(Batch.from_list([one, 2]), [other, 2], [0, 0], "map")


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different(one: Any, other: Any) -> None:
    with pytest.raises(NativeDiffers, match=r"natively and .* by Python"):
        check_alike(Batch.from_list([one, 2]), [other, 2], [0, 0], "map")
    with pytest.raises(NativeDiffers):
        check_alike(Batch.from_list([one]), [], [0], "map")
