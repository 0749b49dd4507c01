"""Nexmark's queries by name, each per record and over columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import engine
from operators import Stream
from pipelines.nexmark import joins, ranking, stateless, totals, windows
from pipelines.nexmark.source import Tables

Ask = Callable[[Tables], Stream[Any]]


@dataclass(frozen=True)
class Query:
    """The versions of a query; the results are equal."""

    per_record: Ask
    columnar: Ask

    def of(self, tables: Tables) -> Stream[Any]:
        """The query over these tables."""
        return (self.columnar if tables.api == "columnar" else self.per_record)(tables)


def query(name: str) -> Query:
    """The query of this name. Raises GraphError if there is none."""
    found = QUERIES.get(name)
    if found is None:
        raise engine.GraphError(f"Nexmark has no {name}, expected one of {NAMES}")
    return found


QUERIES = {
    "q0": Query(stateless.q0, stateless.q0),
    "q1": Query(stateless.q1, stateless.q1_columns),
    "q2": Query(stateless.q2, stateless.q2_columns),
    "q3": Query(joins.q3, joins.q3_columns),
    "q4": Query(joins.q4, joins.q4_columns),
    "q5": Query(windows.q5, windows.q5_columns),
    "q6": Query(joins.q6, joins.q6_columns),
    "q7": Query(windows.q7, windows.q7_columns),
    "q8": Query(joins.q8, joins.q8_columns),
    "q9": Query(joins.q9, joins.q9_columns),
    "q10": Query(stateless.q10, stateless.q10_columns),
    "q11": Query(windows.q11, windows.q11_columns),
    "q12": Query(windows.q12, windows.q12_columns),
    "q13": Query(joins.q13, joins.q13_columns),
    "q14": Query(stateless.q14, stateless.q14_columns),
    "q15": Query(totals.q15, totals.q15_columns),
    "q16": Query(totals.q16, totals.q16_columns),
    "q17": Query(totals.q17, totals.q17_columns),
    "q18": Query(ranking.q18, ranking.q18_columns),
    "q19": Query(ranking.q19, ranking.q19_columns),
    "q20": Query(joins.q20, joins.q20_columns),
    "q21": Query(stateless.q21, stateless.q21_columns),
    "q22": Query(stateless.q22, stateless.q22_columns),
    "q23": Query(joins.q23, joins.q23_columns),
}
NAMES = ", ".join(QUERIES)
