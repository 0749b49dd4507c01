"""Coroutine functions of records, many of whose calls are under way at a time."""

from operators.map_async.operator import MapAsync

__all__ = ["MapAsync"]
