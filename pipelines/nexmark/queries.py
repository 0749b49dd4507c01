"""Nexmark's queries by name, each per record and, where operators allow it, over columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import engine
from operators import Stream
from pipelines.nexmark import joins, stateless, totals, windows
from pipelines.nexmark.source import Api, Tables

Ask = Callable[[Tables], Stream[Any]]


@dataclass(frozen=True)
class Query:
    """The ways in which a query is written; the results are the same."""

    per_record: Ask
    columnar: Ask | None = None

    @property
    def apis(self) -> tuple[Api, ...]:
        """Those that there are."""
        return ("per_record", "columnar") if self.columnar else ("per_record",)

    def of(self, tables: Tables) -> Stream[Any]:
        """The query over these tables; raises GraphError where it is not written for them."""
        ask = self.columnar if tables.api == "columnar" else self.per_record
        if ask is None:
            name = self.per_record.__name__
            raise engine.GraphError(f"{name} is not written over columns", hint="api=per_record")
        return ask(tables)


def query(name: str) -> Query:
    """The query of this name; raises GraphError where there is none, and says why."""
    found = QUERIES.get(name)
    if found is None:
        reason = f": {MISSING[name]}" if name in MISSING else f", expected one of {NAMES}"
        raise engine.GraphError(f"Nexmark's {name} is not written{reason}")
    return found


QUERIES = {
    "q0": Query(stateless.q0, stateless.q0),
    "q1": Query(stateless.q1, stateless.q1_columns),
    "q2": Query(stateless.q2, stateless.q2_columns),
    "q3": Query(joins.q3, joins.q3_columns),
    "q4": Query(joins.q4, joins.q4_columns),
    "q5": Query(windows.q5, windows.q5_columns),
    "q7": Query(windows.q7, windows.q7_columns),
    "q8": Query(joins.q8, joins.q8_columns),
    "q9": Query(joins.q9),
    "q11": Query(windows.q11, windows.q11_columns),
    "q13": Query(joins.q13),
    "q14": Query(stateless.q14, stateless.q14_columns),
    "q15": Query(totals.q15, totals.q15_columns),
    "q16": Query(totals.q16, totals.q16_columns),
    "q17": Query(totals.q17, totals.q17_columns),
    "q18": Query(totals.q18),
    "q19": Query(totals.q19),
    "q20": Query(joins.q20, joins.q20_columns),
    "q21": Query(stateless.q21, stateless.q21_columns),
    "q22": Query(stateless.q22, stateless.q22_columns),
}
MISSING = {
    "q6": "averages of a seller's last ten sales, of rows that change; Flink SQL has none either",
    "q10": "no sink here divides files by a column",
    "q12": "windows by the clock of the machine; windows here go by event time",
}
NAMES = ", ".join(QUERIES)
