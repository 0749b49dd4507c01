"""Functions that take a batch through one operator.

A user's function of records has one loop over the batch around it, and nothing else. As an
exception passes through a run, that adds its operator and the record to it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from engine.columns import Rows, import_pyarrow, is_columns, rows
from engine.graph.failing import FailureContext
from engine.network import Batch, Paired, take_rows

Run = Callable[[Any], Any]
Tell = Callable[[], FailureContext]
"""Called as an exception passes through an operator."""


def unchanged(batch: Any) -> Any:
    """The batch itself."""
    return batch


def as_rows(tell: Tell) -> Run:
    """The records of a batch: of columns, a dict for each row."""

    def run(batch: Any) -> Any:
        if type(batch) is list or not is_columns(batch):
            return batch
        try:
            return rows(batch)
        except BaseException:
            tell()
            raise

    return run


def of_rows(run: Run, tell: Tell) -> Run:
    """The run of an operator that passes records on: of columns it gets rows, and columns go on."""
    records_of = as_rows(tell)

    def run_rows(batch: Any) -> Any:
        records = records_of(batch)
        if records is batch:
            return run(batch)
        out = run(list(records))
        return batch if len(out) == len(records) else _chosen(batch, records, out)

    return run_rows


def _chosen(batch: Any, records: list[Any], out: list[Any]) -> Any:
    """The rows of which these are the records: the same objects, in order."""
    passed = set(map(id, out))
    places = [place for place, record in enumerate(records) if id(record) in passed]
    return take_rows(batch, import_pyarrow("a stream of columns").array(places, "int64"))


def listed(batch: Any) -> Any:
    """The records of a batch whose list is made only where somebody needs it."""
    return batch.to_list() if type(batch) in _LATER else batch


def listed_but(*kinds: type) -> Run:
    """As `listed`, but for batches of these kinds, which are taken as they are."""

    def run(batch: Any) -> Any:
        return batch if type(batch) in kinds else listed(batch)

    return run


_LATER = (Batch, Paired, Rows)


def encoded_rows(batch: Any) -> Any:
    """Dicts that are still columns, encoded for a gate."""
    return Batch.of_rows(batch.columns) if type(batch) is Rows else batch


def in_turn(runs: tuple[Run, ...]) -> Run:
    """One behind the other; of one alone, that itself."""
    if len(runs) == 1:
        return runs[0]
    if len(runs) == 2:
        first, second = runs
        return lambda batch: second(first(batch))

    def process(batch: Any) -> Any:
        for run in runs:
            batch = run(batch)
        return batch

    return process


def of_map(function: Callable[[Any], Any], tell: Tell) -> Run:
    """The run of `map`: one record for each."""

    def run(batch: list[Any]) -> list[Any]:
        if len(batch) == 1:  # the comprehension costs more than its calls
            record = batch[0]
            try:
                return [function(record)]
            except BaseException:
                tell().on(record)
                raise
        records = iter(batch)
        try:
            return [function(record) for record in records]
        except BaseException:
            tell().at(batch, records)
            raise

    return run


def of_key(function: Callable[[Any], Any], tell: Tell) -> Run:
    """The run of `key`: each record behind its key."""

    def run(batch: list[Any]) -> list[Any]:
        records = iter(batch)
        try:
            return [(function(record), record) for record in records]
        except BaseException:
            tell().at(batch, records)
            raise

    return run


def of_filter(function: Callable[[Any], Any], counter: list[int], tell: Tell) -> Run:
    """The run of `filter`: the records for which the function is true."""

    def run(batch: list[Any]) -> list[Any]:
        records = iter(batch)
        try:
            out = [record for record in records if function(record)]
        except BaseException:
            tell().at(batch, records)
            raise
        counter[0] += len(out)
        return out

    return run


def of_flat_map(function: Callable[[Any], Any], counter: list[int], tell: Tell) -> Run:
    """The run of `flat_map`: any number of records for each."""

    def run(batch: list[Any]) -> list[Any]:
        out: list[Any] = []
        record = None
        try:
            for record in batch:
                out += function(record)
        except BaseException as error:
            tell().on(record)
            if isinstance(error, TypeError):
                raise _explained(error) from None
            raise
        counter[0] += len(out)
        return out

    return run


def _explained(error: TypeError) -> TypeError:
    """An error in place of Python's if the function of `flat_map` returned no iterable."""
    here = error.__traceback__
    found = re.match("'(.*)' object is not iterable", str(error))
    if found is None or here is None or here.tb_next is not None:
        return error
    kind = found.group(1)
    returned = "None" if kind == "NoneType" else f"an object of type {kind}"
    return TypeError(
        f"the function of flat_map returned {returned}, expected an iterable of records\n\n"
        "hint: return a list: [] for no record, [record] for one"
    )


def counted(function: Run, counter: list[int], tell: Tell, *, takes_nothing: bool = False) -> Run:
    """As the function, with a count of its records.

    It is not called with an empty list, unless it `takes_nothing`.
    """

    def run(batch: Any) -> Any:
        if type(batch) is list and not batch and not takes_nothing:  # neither records nor columns
            return batch
        try:
            out = function(batch)
            if type(out) is not list:
                check_batch(out, "process")
            counter[0] += len(out)
            return out
        except BaseException:
            tell()
            raise

    return run


def limited(function: Run, counter: list[int], limit: float, reached: Callable[[], None]) -> Run:
    """As the function; calls `reached` once, at this count."""

    def run(batch: Any) -> Any:
        nonlocal limit
        out = function(batch)
        if counter[0] >= limit:
            limit = math.inf
            reached()
        return out

    return run


def check_batch(out: object, method: str) -> None:
    """Raise TypeError unless the method has given a batch."""
    if not isinstance(out, list | Batch | Paired | Rows) and not is_columns(out):
        raise TypeError(
            f"{method}() gave {type(out).__name__} {out!r:.80}, expected a list of records or a "
            "pyarrow.RecordBatch\n\nhint: [] for no record, [record] for one"
        )


def of_sink(write: Callable[[Any], None], tell: Tell) -> Run:
    """A sink's `write`, which is never called with an empty batch."""

    def run(batch: Any) -> Any:
        if not len(batch):
            return batch
        try:
            write(batch)
        except BaseException:
            tell()
            raise
        return batch

    return run
