"""Coroutine functions of records, with many concurrent calls."""

from operators.map_async.operator import MapAsync

__all__ = ["MapAsync"]
