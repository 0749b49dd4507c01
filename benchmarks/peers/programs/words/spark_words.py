"""The words of Spark's source: the word of each of the values 0, 1, 2, ….

It follows from the square of the value modulo a prime, which looks random and repeats with that
period. So one period is enough to count the words among any number of values.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def index_of_value(value: Any, words: int) -> Any:
    """The word number of a value, for Spark's columns and for NumPy's arrays."""
    return (value % PERIOD) * (value % PERIOD) % PERIOD % words


def emitted_counts(values: int, words: int) -> list[int]:
    """How often each word is among so many values.

    >>> sum(emitted_counts(3_000_000, 100))
    3000000
    """
    indexes = index_of_value(np.arange(PERIOD), words)
    whole = np.bincount(indexes, minlength=words)
    rest = np.bincount(indexes[: values % PERIOD], minlength=words)
    counts: list[int] = (whole * (values // PERIOD) + rest).tolist()
    return counts


PERIOD = 1_000_003
