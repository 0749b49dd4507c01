"""`top_n`: the first few records of each key by rank."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import ne, neg
from typing import TYPE_CHECKING, Any

from engine.columns import is_columns
from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.graph.operator import OnError, Properties
from engine.network import Batch, Top
from engine.state import KeyedState
from operators.aggregates import Emit, emit_meaning
from operators.changes.one_form import OneForm
from operators.keys import Item, Key, key_finder, key_meaning
from operators.order.rows import RecordRows
from operators.order.top_encoded import TopEncoded

if TYPE_CHECKING:
    from operators.order.top_columns import TopColumns


@dataclass(frozen=True)
class TopN(BatchOperator):
    """Keeps the first `most` records of each key; see `KeyedStream.top_n`."""

    key: Key
    paired: bool
    most: int
    by: Item | tuple[Item, ...] | None
    descending: tuple[bool, ...]
    """Of each item to rank by, whether the greatest is first."""
    emit: Emit = "updates"
    on_error: OnError = "fail"

    @property
    def properties(self) -> Properties:
        """It takes records, encoded or not, and columns."""
        return Properties(
            accepts_batches=True,
            accepts_columns=True,
            emits_encoded=True,
            on_error=self.on_error,
            meaning={
                "kind": "top_n",
                "key": key_meaning(self.key, self.paired),
                "most": self.most,
                "by": key_meaning(self.by, paired=False),
                "descending": list(self.descending),
                **emit_meaning(self.emit),
            },
        )

    def open(self, context: TaskContext) -> BatchFunction:
        """The first records of the keys of one task."""
        return _TopN(self, context)


class _TopN(BatchFunction):
    """The first batch decides whether it takes encoded records, objects or columns.

    From the first encoded batch on that Rust cannot rank, it goes on with objects.
    """

    def __init__(self, operator: TopN, context: TaskContext) -> None:
        self._operator = operator
        self._context = context
        self._is_final = operator.emit == "final"
        self._form = OneForm(operator.key)
        self._top: TopEncoded | TopRecords | TopColumns | None = None

    def process(self, batch: Any) -> Any:
        if not len(batch):
            return []
        if type(batch) is Batch and (batch.has_columns or self._are_objects):
            batch = batch.decode()
        keeps_columns = None if self._top is None else self._top.are_columns
        if type(batch) is not Batch:
            batch = self._form.of(batch, keeps_columns=keeps_columns)
        top = self._of(batch)
        if isinstance(top, TopEncoded):
            changed = top.take(batch)
            if not isinstance(changed, str):
                return changed
            top = self._take_objects(top)
            batch = batch.decode() if type(batch) is Batch else batch
        changed = top.take(batch)
        return [] if self._is_final else changed

    def on_end(self) -> Iterator[Any]:
        if self._is_final and self._top is not None:
            yield from self._top.all(self._context.batch_size)

    def snapshot(self) -> KeyedState:
        if self._top is None:
            return KeyedState.of(())
        return self._top.snapshot(pickle=self._context.pickle)

    def restore(self, state: KeyedState) -> None:
        kept = next(iter(state.items()), None)
        if kept is None:
            return
        if isinstance(kept[1], bytes):
            self._columns().restore(state)
            return
        encoded = self._encoded()
        if encoded.restore(state):
            self._top = encoded
        else:
            self._top = TopRecords(self._operator, self._context)
            self._top.take_over(state.items())

    @property
    def _are_objects(self) -> bool:
        """Whether there is something that is not encoded."""
        return self._top is not None and not isinstance(self._top, TopEncoded)

    def _of(self, batch: Any) -> TopEncoded | TopRecords | TopColumns:
        if self._top is None:
            if is_columns(batch):
                return self._columns()
            is_encoded = type(batch) is Batch
            self._top = self._encoded() if is_encoded else TopRecords(self._operator, self._context)
        return self._top

    def _encoded(self) -> TopEncoded:
        own = self._operator
        top = Top(own.key, own.by, own.descending, paired=own.paired, most=own.most)
        return TopEncoded(top, is_wanted=not self._is_final, pickle=self._context.pickle)

    def _columns(self) -> TopColumns:
        from operators.order.top_columns import TopColumns

        own = self._operator
        by = own.by if isinstance(own.by, tuple) else (own.by,)
        key = None if own.paired else own.key
        self._top = columns = TopColumns(key, by, own.descending, own.most)
        return columns

    def _take_objects(self, encoded: TopEncoded) -> TopRecords:
        """Go on with objects, for good."""
        self._top = objects = TopRecords(self._operator, self._context)
        for pairs in encoded.all(self._context.batch_size):
            objects.take_over(pairs.to_list())
        return objects


class TopRecords:
    """The first records of each key, the best in front.

    They have ranks, of which the least is the best: plain numbers and tuples of them as long as all
    values are numbers, and from the first other value on objects that compare as is said.
    """

    are_columns = False

    def __init__(self, operator: TopN, context: TaskContext) -> None:
        self._context = context
        self._most = operator.most
        self._rows = RecordRows(operator.key, operator.paired, None, context)
        self._find = key_finder(operator.by)
        self._descending = operator.descending
        self._several = isinstance(operator.by, tuple) and len(operator.by) > 1
        self._are_numbers = True
        are_before = [_above if each else _below for each in operator.descending]
        self._is_before = _in_turn(are_before) if self._several else are_before[0]
        self._kept: dict[int, tuple[list[Any], list[Any]]] = {}
        """By the number of a key the ranks of its first records, and these."""

    def take(self, batch: list[Any]) -> list[Any]:
        """Take records; returns each key whose first records have changed, with these."""
        numbers, _ = self._rows.read(batch)
        records = self._rows.records(batch)
        ranks = self._ranks(records)
        changed: dict[int, None] = {}
        for number, record in zip(numbers, records, strict=True):
            try:
                if self._insert(number, next(ranks), record):
                    changed[number] = None
            except BaseException as error:
                if self._context.rescue is None:
                    self._context.failing.on(record)
                    raise
                self._context.rescue(record, error)
        return [self._result(number) for number in changed]

    def all(self, most: int) -> Iterator[list[Any]]:
        """Each key with its first records, in batches."""
        numbers = list(self._kept)
        for at in range(0, len(numbers), most):
            yield [self._result(number) for number in numbers[at : at + most]]

    def snapshot(self, *, pickle: bool) -> KeyedState:
        """The first records of each key."""
        return KeyedState.of(map(self._result, self._kept), pickle=pickle)

    def take_over(self, pairs: Iterable[tuple[Any, list[Any]]]) -> None:
        """Go on with the first records of keys."""
        for key, records in pairs:
            self._kept[self._rows.numbers.of_key(key)] = ([], records)
        self._rank_all_again()

    def _insert(self, number: int, rank: Any, record: Any) -> bool:
        """Whether the record is among the first of its key now; of equal ones, earlier ones are."""
        of_key = self._kept.get(number)
        if of_key is None:
            self._kept[number] = ([rank], [record])
            return True
        ranks, records = of_key
        if len(ranks) == self._most and not rank < ranks[-1]:
            return False
        at = bisect_right(ranks, rank)
        ranks.insert(at, rank)
        records.insert(at, record)
        del ranks[self._most :]
        del records[self._most :]
        return True

    def _ranks(self, records: list[Any]) -> Iterator[Any]:
        """The ranks of records, each when it is asked for where one of them fails."""
        if self._are_numbers:
            with suppress(Exception):  # a record that has no value fails again by itself
                numbers = self._numbers(list(map(self._find, records)))
                if numbers is not None:
                    return iter(numbers)
        return map(self._rank, records)

    def _rank(self, record: Any) -> Any:
        value = self._find(record)
        if value is None or (type(value) is tuple and None in value):
            raise TypeError(f"top_n() got {value!r:.80} to rank by, expected what has an order")
        if self._are_numbers:
            numbers = self._numbers([value])
            if numbers is not None:
                return numbers[0]
            self._are_numbers = False
            self._rank_all_again()
        return _Rank(value, self._is_before)

    def _rank_all_again(self) -> None:
        are_numbers = self._are_numbers
        for number, (_, records) in self._kept.items():
            ranks = list(map(self._rank, records))
            if self._are_numbers != are_numbers:
                return  # one of them is no number, and all have been ranked by it
            self._kept[number] = (ranks, records)

    def _numbers(self, values: list[Any]) -> list[Any] | None:
        """Ranks that are numbers, or tuples of them; None where values are something else."""
        columns = list(zip(*values, strict=True)) if self._several else [values]
        ranks = []
        for column, is_descending in zip(columns, self._descending, strict=True):
            classes = set(map(type, column))
            if not classes <= _NUMBERS or (float in classes and any(map(ne, column, column))):
                return None  # NaN has no place among numbers
            ranks.append(list(map(neg, column)) if is_descending else column)
        return list(zip(*ranks, strict=True)) if self._several else list(ranks[0])

    def _result(self, number: int) -> tuple[Any, list[Any]]:
        return self._rows.numbers.of_numbers[number], list(self._kept[number][1])


class _Rank:
    """Less than another one if its value is before that one's."""

    __slots__ = ("_is_before", "value")

    def __init__(self, value: Any, is_before: Callable[[Any, Any], bool]) -> None:
        self.value = value
        self._is_before = is_before

    def __lt__(self, other: _Rank) -> bool:
        return self._is_before(self.value, other.value)


def _above(one: Any, other: Any) -> bool:
    """Whether one is in front of the other, the greatest first, and NaN last."""
    return bool(one > other or (other != other and one == one))


def _below(one: Any, other: Any) -> bool:
    return bool(one < other or (other != other and one == one))


def _in_turn(are_before: Sequence[Callable[[Any, Any], bool]]) -> Callable[[Any, Any], bool]:
    """The same of tuples: where two values are equal, the next ones decide."""

    def one_is_before(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
        for is_before, mine, theirs in zip(are_before, one, other, strict=True):
            if is_before(mine, theirs):
                return True
            if is_before(theirs, mine):
                return False
        return False

    return one_is_before


_NUMBERS = {int, float, bool}
