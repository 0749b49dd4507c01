"""The search of an operator for the time of the records that it reads."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from engine.errors import GraphError
from engine.graph.declaration import Declaration, Input
from engine.graph.operator import Operator, RecordOperator
from engine.partitioner import Forward, Hash
from operators.elementwise import ToColumns, ToRecords
from operators.event_time.selector import GivesTime, Time, TimeSelector, Unit
from operators.keys import HaveKeys, gives_keys
from operators.take import Take


def time_of(
    inputs: Sequence[Input], method: str, time: Time = None, unit: Unit = "us"
) -> TimeSelector:
    """The selector of the time of these edges' records: the given one, or the declared one.

    A `with_event_time` holds behind operators that leave records unchanged; results of windows have
    a time of their own. Raises `GraphError`, which names the method, if there is no time.
    """
    paired = any(gives_keys(edge.source.operator) for edge in inputs)
    if time is not None:
        return replace(TimeSelector.of(method, time, unit), paired=paired, said_by=method)
    selectors = set()
    for declaration, changed_by, selector in _origins(inputs):
        if selector is not None:
            selectors.add(selector)
        elif changed_by is None or not has_event_time([Input(declaration, Forward())]):
            raise GraphError(
                f"{method}() needs the time of each record, expected .with_event_time(...) before "
                f"it on what comes from {declaration.name!r}",
                hint="such as .with_event_time('ts', out_of_orderness=timedelta(seconds=5)), right "
                "behind the source",
            )
        else:
            raise GraphError(
                f"{method}() follows {changed_by!r}, behind which it is not known where a record "
                "has its time, expected time=...",
                hint=f"say where it is in what {changed_by!r} gives: .{method}(..., time=0)",
            )
    if len(selectors) != 1:
        places = " and ".join(sorted(f"{each} ({each.unit})" for each in selectors))
        raise GraphError(
            f"{method}() reads streams with their times in {places}, expected one place",
            hint=f"call .with_event_time(...) behind the union, or say .{method}(..., time=0)",
        )
    return replace(selectors.pop(), paired=paired)


def check_before_keys(inputs: Sequence[Input], method: str) -> None:
    """Raise `GraphError` if records were divided by key on their way to this method.

    A task then has some keys of several tasks. It does not see the order in which records came, and
    records of other keys would be late.
    """
    for declaration in _upstream(inputs):
        if any(isinstance(edge.partitioner, Hash) for edge in declaration.inputs):
            raise GraphError(
                f".{method}() follows .key_by() (of {declaration.name!r}), expected it before",
                hint="call it right behind the source: what it says holds behind .key_by() too; "
                "where records have their time elsewhere since, say time=... there",
            )


def has_event_time(inputs: Sequence[Input]) -> bool:
    """Whether a time was declared anywhere on the way to these edges."""
    return any(isinstance(each.operator, GivesTime) for each in _upstream(inputs))


def _origins(
    inputs: Sequence[Input],
) -> Iterator[tuple[Declaration, str | None, TimeSelector | None]]:
    """The ends of the ways back along which records stay unchanged.

    Each is a declaration of a time, with its selector; a source; or, with its name, an operator
    that makes other records.
    """
    seen = set()
    ways: list[tuple[Input, str | None]] = [(edge, None) for edge in inputs]
    while ways:
        edge, converted = ways.pop()
        declaration = edge.source
        found = declaration.operator
        if (declaration.identity, converted) in seen:
            continue
        seen.add((declaration.identity, converted))
        if edge.output is not None:
            yield declaration, f"{declaration.name}.side({edge.output!r})", None
        elif isinstance(found, GivesTime) and (selector := found.given_time) is not None:
            selector = selector if converted is None else _of_rows(selector)
            yield declaration, None if selector is not None else converted, selector
        elif not declaration.inputs:
            yield declaration, None, None
        elif _keeps_records(found) or isinstance(found, ToColumns | ToRecords):
            by = converted if _keeps_records(found) else declaration.name
            ways += [(each, by) for each in declaration.inputs]
        else:
            yield declaration, declaration.name, None


def _of_rows(selector: TimeSelector) -> TimeSelector | None:
    """The same selector across a conversion between rows and columns, whose names are the same."""
    if selector.column is not None:
        return replace(selector, item=selector.column, in_front=False)
    return replace(selector, in_front=False) if isinstance(selector.item, str) else None


def _upstream(inputs: Sequence[Input]) -> Iterator[Declaration]:
    """All declarations that lead to these edges, each once."""
    seen = set()
    ways = list(inputs)
    while ways:
        declaration = ways.pop().source
        if declaration.identity not in seen:
            seen.add(declaration.identity)
            ways += declaration.inputs
            yield declaration


def _keeps_records(found: Operator) -> bool:
    if isinstance(found, RecordOperator):
        return found.form in ("filter", "key")
    return isinstance(found, HaveKeys | Take)
