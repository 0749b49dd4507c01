"""Times of rows of columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators.columns.numbers import Numbers
from operators.event_time import FARTHEST_US, MICROSECONDS, TimeSelector, Unit


def times_of(time: TimeSelector, batch: pa.RecordBatch) -> Numbers:
    """The times of all rows in microseconds. Raises ValueError for one that is too far away."""
    numbers, selector = time.in_columns(batch)
    times = _microseconds(numbers, selector.unit)
    if times is None or (len(times) and max(int(times.max()), -int(times.min())) > FARTHEST_US):
        raise ValueError(
            f"a time of the column {time.item_of_columns!r} is more than 146,000 years from "
            "1970\n\nhint: say what numbers count by unit=..."
        )
    return times - selector.before_us if selector.before_us else times


def _microseconds(numbers: pa.Array, unit: Unit) -> Numbers | None:
    """None where they are more than 64 bits."""
    if pa.types.is_floating(numbers.type):
        with np.errstate(over="ignore"):  # infinite is too far, too
            given = numbers.to_numpy()
            scaled = given / 1000 if unit == "ns" else given * MICROSECONDS[unit]
        is_far = len(scaled) and np.abs(scaled).max() > FARTHEST_US
        return None if is_far else np.rint(scaled).astype(np.int64)
    try:
        integers = numbers.cast(pa.int64())
        if unit in ("s", "ms"):
            integers = pc.multiply_checked(integers, pa.scalar(MICROSECONDS[unit], pa.int64()))
    except pa.ArrowInvalid:
        return None
    times: Numbers = integers.to_numpy()
    return np.floor_divide(times, 1000) if unit == "ns" else times
