"""The loops over records of `map` and others where a record that fails does not fail the job.

Each goes on behind the record that failed: no function is called twice with a record, and nothing
of one that failed is emitted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.graph.context import Rescue
from engine.graph.operator import RecordOperator
from engine.network import KeyExtractError, partition

Function = Callable[[Any], Any]
Run = Callable[[list[Any]], list[Any]]


def rescued(operator: RecordOperator, rescue: Rescue) -> Run:
    """The loop over a batch."""
    loop = {"map": _map, "filter": _filter, "flat_map": _flat_map, "key": _key}[operator.form]
    return loop(operator.function, rescue)


def _map(function: Function, rescue: Rescue) -> Run:
    def run(batch: list[Any]) -> list[Any]:
        out: list[Any] = []
        append = out.append
        records = iter(batch)
        while True:
            try:
                for record in records:
                    append(function(record))
                return out
            except BaseException as error:  # noqa: BLE001 - `rescue` raises what is not its
                rescue(record, error)

    return run


def _key(function: Function, rescue: Rescue) -> Run:
    return _map(lambda record: (hashable(function(record)), record), rescue)


def hashable(key: Any) -> Any:
    """The key; the error of one that is not hashable."""
    try:
        partition([key], 1)
    except KeyExtractError as error:
        raise error.__cause__ or error from None
    return key


def _filter(function: Function, rescue: Rescue) -> Run:
    def run(batch: list[Any]) -> list[Any]:
        out: list[Any] = []
        append = out.append
        records = iter(batch)
        while True:
            try:
                for record in records:
                    if function(record):
                        append(record)
                return out
            except BaseException as error:  # noqa: BLE001 - `rescue` raises what is not its
                rescue(record, error)

    return run


def _flat_map(function: Function, rescue: Rescue) -> Run:
    def run(batch: list[Any]) -> list[Any]:
        out: list[Any] = []
        records = iter(batch)
        while True:
            try:
                for record in records:
                    out += list(function(record))
                return out
            except BaseException as error:  # noqa: BLE001 - `rescue` raises what is not its
                rescue(record, error)

    return run
