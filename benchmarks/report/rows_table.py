"""The table of a result's rows: its columns and cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from benchmarks.schema.rows import Row, Spread
from benchmarks.testbed.broadcast_cases import way_name
from benchmarks.testbed.rate import link_name
from engine.units import duration, rate, three_digits


class Cell(NamedTuple):
    """One value: its text, the range of the runs below it, and the column's sort key."""

    text: str
    order: float | str
    range: str = ""


@dataclass(frozen=True)
class Table:
    """Rows as text. Values that all rows share are written once, and are no column."""

    columns: Sequence[str]
    is_text: Sequence[bool]
    """Which columns are text, and the others numbers."""
    rows: Sequence[Sequence[Cell]]
    shared: Mapping[str, str]

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> Table:
        """The table of a result; columns that are empty in every row are left out."""
        found = [_Found(row, Row.of(row)) for row in result["rows"]]
        columns = _OWN_COLUMNS.get(result["benchmark"], _WORDS)
        cells = {column: [column.of(row) for row in found] for column in columns}
        shared = {
            column.name: each[0].text
            for column, each in cells.items()
            if column.may_be_shared and len(found) > 1 and len({cell.text for cell in each}) == 1
        }
        shown = [
            column
            for column, each in cells.items()
            if column.name not in shared and any(cell.text for cell in each)
        ]
        return cls(
            [column.name for column in shown],
            [column.is_text for column in shown],
            [[cells[column][at] for column in shown] for at in range(len(found))],
            {name: text for name, text in shared.items() if text},
        )


class _Found(NamedTuple):
    raw: Mapping[str, Any]
    row: Row


class _Column(NamedTuple):
    name: str
    of: Callable[[_Found], Cell]
    may_be_shared: bool = False
    """Whether it is a setting, not a measurement."""
    is_text: bool = False


def _text(name: str, value: Callable[[_Found], str | None], shared: bool = True) -> _Column:
    def cell(found: _Found) -> Cell:
        text = value(found) or ""
        return Cell(text, text)

    return _Column(name, cell, shared, is_text=True)


def _number(
    name: str,
    value: Callable[[_Found], float | None],
    shown: Callable[[float], str],
    shared: bool = False,
) -> _Column:
    def cell(found: _Found) -> Cell:
        number = value(found)
        return _EMPTY if number is None else Cell(shown(number), number)

    return _Column(name, cell, shared)


def _spread(
    name: str, value: Callable[[_Found], Spread | None], shown: Callable[[float], str]
) -> _Column:
    """The median, and the range of the runs."""

    def cell(found: _Found) -> Cell:
        spread = value(found)
        if spread is None:
            return _EMPTY
        least, most = shown(spread.min), shown(spread.max)
        return Cell(shown(spread.median), spread.median, f"{least} to {most}")

    return _Column(name, cell)


def _latency(field: str) -> Callable[[_Found], float | None]:
    return lambda found: (found.row.latency_us or {}).get(field)


def _raw_spread(field: str) -> Callable[[_Found], Spread | None]:
    def spread(found: _Found) -> Spread | None:
        value = found.raw.get(field)
        return Spread(value["median"], value["min"], value["max"]) if value else None

    return spread


def _other(row: Row) -> str | None:
    """The peer that a row of Oka alternated with; the peer's own row needs none."""
    return row.beside if row.variant.system == "oka" else None


def _most_memory(found: _Found) -> float | None:
    """The largest growth of a host's memory, in models."""
    memory = found.raw.get("peak_memory_bytes")
    return max(memory.values()) / max(1, found.row.payload_bytes) if memory else None


def _way(found: _Found) -> str:
    return way_name(str(found.row.variant.api), found.row.variant.encryption)


def _link(found: _Found) -> str | None:
    return None if found.row.nodes is None else link_name(found.row.rate_bits_per_second)


def _whole(number: float) -> str:
    return f"{number:,.0f}"


def _seconds(number: float) -> str:
    return f"{number:.2f}"


_EMPTY = Cell("", -1.0)
_RUNS = _number("runs", lambda found: found.row.runs, _whole, shared=True)
_FAILURES = _number("failures", lambda found: len(found.row.failures) or None, _whole)
_LATENCIES = [
    _number(name, _latency(field), duration)
    for name, field in (
        ("mean", "mean"),
        ("p50", "p50"),
        ("p95", "p95"),
        ("p99", "p99"),
        ("p99.9", "p999"),
        ("max", "max"),
    )
]
_WORDS = [
    _text("system", lambda found: found.row.variant.system),
    _text("API", lambda found: found.row.variant.api),
    _text("in turn with", lambda found: _other(found.row)),
    _text("where", lambda found: found.row.variant.way),
    _number("nodes", lambda found: found.row.nodes, _whole, shared=True),
    _text("links", _link),
    _number("bytes", lambda found: found.row.payload_bytes, _whole, shared=True),
    _number("batch", lambda found: found.row.batch_size, _whole, shared=True),
    _number("tasks", lambda found: found.row.parallelism, _whole, shared=True),
    _text("load", lambda found: found.row.load),
    _number("offered words/s", lambda found: found.row.offered, rate),
    _RUNS,
    _spread("words/s", lambda found: found.row.throughput, rate),
    _spread("CPU s per million", lambda found: found.row.cpu, three_digits),
    *_LATENCIES,
    _number("words in all", lambda found: found.row.records, _whole),
    _FAILURES,
]
_SERVE = [
    _text("handler", lambda found: found.raw.get("handler")),
    _text("system", lambda found: found.row.variant.system),
    _text("way", lambda found: found.row.variant.api),
    _number("clients", lambda found: found.raw.get("clients"), _whole, shared=True),
    _text("load", lambda found: found.row.load),
    _number("offered requests/s", lambda found: found.row.offered, rate),
    _RUNS,
    _spread("requests/s", lambda found: found.row.throughput, rate),
    _spread("CPU s per million", lambda found: found.row.cpu, three_digits),
    *_LATENCIES,
    _spread("refused/s", _raw_spread("refused_per_second"), rate),
    _spread("p99 of refusals, ms", _raw_spread("refused_p99_ms"), three_digits),
    *(
        _spread(f"{name} {when}", _raw_spread(f"{field}_{when}"), shown)
        for name, field, shown in (
            ("bytes of memory", "memory_bytes", _whole),
            ("descriptors", "descriptors", _whole),
        )
        for when in ("before", "after")
    ),
    _number("requests in all", lambda found: found.row.records, _whole),
    _FAILURES,
]
_BROADCAST = [
    _text("case", lambda found: found.raw.get("case"), shared=False),
    _text("what", lambda found: found.raw.get("about"), shared=False),
    _text("way", _way),
    _text("links", _link),
    _number("hosts", lambda found: found.row.nodes, _whole, shared=True),
    _number("tasks", lambda found: found.row.parallelism, _whole, shared=True),
    _number("bytes", lambda found: found.row.payload_bytes, _whole, shared=True),
    _RUNS,
    _spread("usable, s", _raw_spread("usable_seconds"), _seconds),
    _spread("loaded, s", _raw_spread("loaded_seconds"), _seconds),
    _number("GB/s", lambda found: found.raw.get("gigabytes_per_second"), _seconds),
    _spread("CPU s per GiB", _raw_spread("cpu_seconds_per_gib"), _seconds),
    _number("memory, models", _most_memory, _seconds),
    _FAILURES,
]
_CONNECTORS = [
    _text("work", lambda found: found.raw.get("work"), shared=False),
    _text("system", lambda found: found.row.variant.system),
    _text("API", lambda found: found.row.variant.api),
    _number("parallelism", lambda found: found.row.parallelism, _whole, shared=True),
    _number("bytes", lambda found: found.row.payload_bytes, _whole, shared=True),
    _RUNS,
    _spread("records/s", lambda found: found.row.throughput, rate),
    _spread("CPU s per million", lambda found: found.row.cpu, three_digits),
    _number("records in all", lambda found: found.row.records, _whole),
    _FAILURES,
]
_OWN_COLUMNS = {"broadcast": _BROADCAST, "connectors": _CONNECTORS, "serve": _SERVE}
"""Of benchmarks that count no words."""
