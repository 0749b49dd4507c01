"""The checked arguments of `KeyedStream.over`: spans, time and emission."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypeAlias, get_args

from engine.errors import GraphError
from operators.aggregates import emit_meaning
from operators.durations import check_duration, microseconds
from operators.event_time import TimeSelector
from operators.keys import Key, key_meaning

Emit: TypeAlias = Literal["final", "updates"]
"""When a record has its result: as the watermark passes it ("final"), or at once ("updates")."""

Span: TypeAlias = timedelta | int
"""A duration before each record, or a number of records that ends with it."""


@dataclass(frozen=True)
class Rolling:
    """The settings of spans, whatever is computed of the records within them."""

    key: Key
    """The place of the key in a record; None for the record itself."""
    paired: bool
    """Whether pairs of a key and a record arrive."""
    time: TimeSelector
    spans: tuple[Span, ...]
    names: tuple[str, ...] | None
    """The names of several spans; None for a single one without a name."""
    emit: Emit = "final"

    @property
    def meaning(self) -> dict[str, Any]:
        """The settings that state depends on, for `Properties.meaning`."""
        names = self.names or ("",) * len(self.spans)
        spans = (
            f"{name}{'=' if name else ''}{_in_words(span)}"
            for name, span in zip(names, self.spans, strict=True)
        )
        return {
            "key": key_meaning(self.key, self.paired),
            "spans": ", ".join(spans),
            **self.time.meaning,
            **emit_meaning(self.emit),
        }

    @property
    def in_numbers(self) -> list[tuple[str, int]]:
        """The spans for Rust."""
        return [
            ("rows", min(span, _MOST)) if isinstance(span, int) else ("time", microseconds(span))
            for span in self.spans
        ]

    def fields(self, aggregations: tuple[str, ...]) -> list[str]:
        """The names of results: of each span, those of all aggregations."""
        if self.names is None:
            return list(aggregations)
        if len(aggregations) == 1:
            return list(self.names)
        return [f"{name}_{span}" for span in self.names for name in aggregations]


def spans_of(
    last: object, rows: object, named: Mapping[str, object]
) -> tuple[tuple[Span, ...], tuple[str, ...] | None]:
    """The spans that a user gives, and their names. Raises `GraphError` for what is none."""
    single = [each for each in (last, rows) if each is not None]
    if len(single) + bool(named) != 1:
        got = "nothing" if not single and not named else "several of last, rows and named spans"
        raise GraphError(
            f"over() got {got}, expected one span, or several by name",
            hint="over(last=timedelta(hours=1)), over(rows=100), or "
            "over(h1=timedelta(hours=1), h24=timedelta(hours=24))",
        )
    if named:
        return tuple(_checked(name, span) for name, span in named.items()), tuple(named)
    if rows is not None:
        return (_rows("rows", rows),), None
    return (_duration("last", last),), None


def check_emit(emit: object) -> None:
    """Raise `GraphError` unless it says when to emit."""
    if emit not in get_args(Emit):
        raise GraphError(f"over() got emit={emit!r:.80}, expected 'final' or 'updates'")


def _checked(name: str, span: object) -> Span:
    return _duration(name, span) if isinstance(span, timedelta) else _rows(name, span)


def _duration(name: str, span: object) -> timedelta:
    check_duration(f"over(): {name}", span)
    assert isinstance(span, timedelta)
    if span > _LONGEST:
        raise GraphError(f"over() got {name}={span!r}, expected at most 36,000 years")
    return span


def _rows(name: str, rows: object) -> int:
    if type(rows) is int and rows >= 1:
        return rows
    expected = "an int" if name == "rows" else "a timedelta, or an int"
    raise GraphError(
        f"over() got {name}={rows!r:.80}, expected {expected} of at least 1",
        hint="over(rows=100) sees each record with the 99 before it",
    )


def _in_words(span: Span) -> str:
    return f"{span} rows" if isinstance(span, int) else str(span)


_LONGEST = timedelta(microseconds=2**60)
_MOST = 2**60
"""More records than any span has."""
