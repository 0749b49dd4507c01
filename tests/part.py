"""Which part of the tests `make test` runs; `make test-all` runs them all."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest

WHOLE = os.environ.get("TESTS") == "whole"


def examples(number: int) -> int:
    """How many examples Hypothesis tries, where it tries so many for the whole."""
    return number if WHOLE else max(min(number, FEW), number // 4)


def has(item: pytest.Item) -> bool:
    """Whether a cell of a table is one of those that run, in which each value of an axis is.

    Of `@pytest.mark.table(3)` it is one in three: where its places on all axes sum to a multiple.
    Of `@pytest.mark.once_on_ray` it is the first on Ray, and each on the local runtime; of
    `@pytest.mark.again_on_ray` none on Ray.
    """
    table, once, again = map(item.get_closest_marker, ("table", "once_on_ray", "again_on_ray"))
    if WHOLE or not (table or once or again):
        return True
    params = item.callspec.params if hasattr(item, "callspec") else {}
    if again and params.get("runtime", "ray") == "ray":
        return False
    places = [_place(axis, params) for axis in item.iter_markers("parametrize")]
    if once and params["runtime"] == "ray" and any(places):
        return False
    return not table or sum(places) % table.args[0] == 0


def _place(axis: pytest.Mark, params: Mapping[str, object]) -> int:
    """Where on the axis of a table the values of a cell are."""
    names, cells = axis.args
    names = names.split(",") if isinstance(names, str) else names
    wanted = [params[name.strip()] for name in names]
    for place, cell in enumerate(cells):
        if isinstance(cell, PARAM):
            values = cell.values
        else:
            values = [cell] if len(names) == 1 else cell
        if all(value is other for value, other in zip(values, wanted, strict=True)):
            return place
    raise LookupError(f"{wanted} are not on the axis {names}: is it a list?")


PARAM = type(pytest.param())
"""What `pytest.param` makes: a cell with marks or a name."""
FEW = 5
"""The fewest examples: where there are no more for the whole, `make test` has all."""
