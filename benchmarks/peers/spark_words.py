"""The words of Spark's source: which word each of the values 0, 1, 2, … stands for.

The squares of the values modulo a prime, which look random and repeat after that many, so that
how often each word is among any number of values takes one period to count.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def index_of_value(value: Any, words: int) -> Any:
    """Which word a value stands for: of Spark's columns and of NumPy's arrays."""
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
