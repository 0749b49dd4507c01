"""The page of a report: its figures inside, a table of all rows, what ran where and when."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jinja2

from benchmarks.rows import Row, Spread
from engine.units import duration, rate


@dataclass(frozen=True)
class Picture:
    """A figure as the page shows it."""

    title: str
    alt: str
    note: str
    svg: bytes

    @property
    def url(self) -> str:
        """A URL that holds the image itself."""
        return "data:image/svg+xml;base64," + base64.b64encode(self.svg).decode()


@dataclass(frozen=True)
class Section:
    """What the page tells of one result."""

    name: str
    benchmark: str
    facts: Mapping[str, str]
    """Machine, date, commit, versions, settings: what the figures depend on."""
    pictures: Sequence[Picture]
    columns: Sequence[str]
    table: Sequence[Sequence[Cell]]
    failures: Sequence[tuple[str, str]]
    """What failed: the row in words, and the message."""

    @classmethod
    def of(cls, name: str, result: Mapping[str, Any], pictures: Sequence[Picture]) -> Section:
        """The section of a result; columns that are empty in every row are left out."""
        rows = [Row.of(row) for row in result["rows"]]
        columns = [column for column in _COLUMNS if any(column.of(row).text != "" for row in rows)]
        return cls(
            name=name,
            benchmark=str(result["benchmark"]).replace("_", " "),
            facts=_facts(result),
            pictures=pictures,
            columns=[column.name for column in columns],
            table=[[column.of(row) for column in columns] for row in rows],
            failures=[(_in_words(row), failure) for row in rows for failure in row.failures],
        )


class Cell(NamedTuple):
    """One value of the table: what is shown, and what the column is sorted by."""

    text: str
    order: float | str


def render(sections: Sequence[Section]) -> str:
    """The HTML of the page."""
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    template = environment.from_string(
        (Path(__file__).parent / "page.html.jinja").read_text(encoding="utf-8")
    )
    return template.render(sections=sections)


def _facts(result: Mapping[str, Any]) -> dict[str, str]:
    machine = dict(result.get("machine") or {})
    parts = [machine.get("processor")]
    if machine.get("cores"):
        parts.append(f"{machine['cores']} cores")
    if machine.get("memory_bytes"):
        parts.append(f"{machine['memory_bytes'] / 1024**3:.3g} GiB of memory")
    parts.append(machine.get("system"))
    return {
        "machine": ", ".join(str(part) for part in parts if part) or "unknown",
        "date": result.get("date") or "unknown",
        "commit": result.get("commit") or "unknown",
        "versions": _listed(result.get("versions"), " "),
        "settings": _listed(result.get("settings"), " = "),
    }


def _listed(named: Mapping[str, Any] | None, between: str) -> str:
    return ", ".join(f"{key}{between}{value}" for key, value in (named or {}).items()) or "unknown"


def _in_words(row: Row) -> str:
    batch = f", batch {row.batch_size:,}" if row.batch_size is not None else ""
    return (
        f"{row.variant.name}, {row.payload_bytes:,} bytes{batch}, parallelism {row.parallelism}, "
        f"{row.load_name}"
    )


class _Column(NamedTuple):
    name: str
    of: Callable[[Row], Cell]


def _text(name: str, value: Callable[[Row], str | None]) -> _Column:
    def cell(row: Row) -> Cell:
        text = value(row) or ""
        return Cell(text, text)

    return _Column(name, cell)


def _number(
    name: str, value: Callable[[Row], float | None], shown: Callable[[float], str]
) -> _Column:
    def cell(row: Row) -> Cell:
        found = value(row)
        return _EMPTY if found is None else Cell(shown(found), found)

    return _Column(name, cell)


def _spread(
    name: str, value: Callable[[Row], Spread | None], shown: Callable[[float], str]
) -> list[_Column]:
    """The median, and beside it the range of the runs."""

    def median(row: Row) -> float | None:
        found = value(row)
        return None if found is None else found.median

    def cell(row: Row) -> Cell:
        found = value(row)
        if found is None:
            return _EMPTY
        return Cell(f"{shown(found.min)} to {shown(found.max)}", found.max - found.min)

    return [_number(name, median, shown), _Column("min to max", cell)]


def _latency(field: str) -> Callable[[Row], float | None]:
    return lambda row: (row.latency_us or {}).get(field)


def _whole(number: float) -> str:
    return f"{number:,.0f}"


_EMPTY = Cell("", -1.0)
_COLUMNS = [
    _text("system", lambda row: row.variant.system),
    _text("api", lambda row: row.variant.api),
    _text("where", lambda row: row.variant.way),
    _number("nodes", lambda row: row.nodes, _whole),
    _number("link bit/s", lambda row: row.rate_bits_per_second, rate),
    _number("bytes", lambda row: row.payload_bytes, _whole),
    _number("batch", lambda row: row.batch_size, _whole),
    _number("parallelism", lambda row: row.parallelism, _whole),
    _text("load", lambda row: row.load),
    _number("offered/s", lambda row: row.offered, rate),
    _number("runs", lambda row: row.runs, _whole),
    *_spread("words/s", lambda row: row.throughput, rate),
    *_spread("CPU s/million", lambda row: row.cpu, lambda seconds: f"{seconds:.3g}"),
    *(
        _number(name, _latency(field), duration)
        for name, field in (
            ("mean", "mean"),
            ("p50", "p50"),
            ("p95", "p95"),
            ("p99", "p99"),
            ("p99.9", "p999"),
            ("max", "max"),
        )
    ),
    _number("records", lambda row: row.records, _whole),
    _number("failures", lambda row: len(row.failures) or None, _whole),
]
