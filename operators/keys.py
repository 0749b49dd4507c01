"""The place of a record's key, and the operators that look for it before records are divided."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeAlias

from engine.errors import GraphError
from engine.graph.batch_operator import BatchFunction, BatchOperator, PureFunction
from engine.graph.context import TaskContext
from engine.graph.operator import OnError, Operator, Properties, RecordOperator
from engine.network import Finder
from engine.record import comparable_key, dict_key
from engine.task.rescued import hashable, rescued
from operators.elementwise import check_function

Item: TypeAlias = int | str
"""The place of a value in a record: the index of a tuple's or list's item, a key of a dict, or the
name of a field of a dataclass, a named tuple or another object."""

Key: TypeAlias = Item | tuple[Item, ...] | None
"""An item, several that make a tuple, or None: the record itself. Of no items, the empty tuple is
the key of all records."""

Pairs: TypeAlias = Callable[[list[Any], Iterator[Any]], Iterable[tuple[Any, Any]]]
"""Gives the keys and records of a batch, from its iterator."""


def key_meaning(key: Key, paired: bool) -> Any:
    """The place of the key, for `Properties.meaning`; all functions have the same meaning.

    >>> key_meaning(("user", 0), paired=False), key_meaning(None, paired=False)
    (['user', 0], 'the record')
    >>> key_meaning(0, paired=True)
    'a function of the record'
    """
    if paired:
        return "a function of the record"
    if key is None:
        return "the record"
    return list(key) if isinstance(key, tuple) else key


@dataclass(frozen=True)
class HaveKeys(BatchOperator):
    """Passes records with such a key, and rescues the others.

    No gate refuses the key of a record that it passes.
    """

    key: Key
    on_error: OnError

    @property
    def properties(self) -> Properties:
        """The treatment of records that fail; the others go on."""
        return Properties(on_error=self.on_error, passes_records=True)

    def open(self, context: TaskContext) -> BatchFunction:
        """The loop over a batch."""
        items = self.key if isinstance(self.key, tuple) else (self.key,)
        finders = [_itself if item is None else Finder(item).find for item in items]
        assert context.rescue is not None

        def with_keys(record: Any) -> Any:
            for find in finders:
                hashable(find(record))
            return record

        return PureFunction(rescued(RecordOperator("map", with_keys), context.rescue))


def gives_keys(operator: Operator) -> bool:
    """Whether records leave it behind their keys, (key, record), as keys of a function do.

    The key then travels with its record, so that the function runs once, before the network.
    """
    return isinstance(operator, RecordOperator) and operator.form == "key"


def key_finder(key: Key) -> Callable[[Any], Any]:
    """The function that gives the key of a record."""
    if key is None:
        return _itself
    items = key if isinstance(key, tuple) else (key,)
    if any(isinstance(item, str) for item in items):
        find: Callable[[Any], Any] = Finder(key).find
        return find
    return itemgetter(*items)


def keyed_pairs(key: Key, *, paired: bool) -> Pairs:
    """The keys and records of a batch of records with this key, or of pairs of both."""
    if paired:
        return lambda _batch, pairs: pairs
    if key is None:
        return lambda batch, records: zip(records, batch, strict=True)
    if key == ():
        return lambda _batch, records: (((), record) for record in records)
    find = key_finder(key)
    return lambda batch, records: zip(map(find, records), batch, strict=True)


def check_key(keys: Sequence[object]) -> Key | Callable[[Any], Any]:
    """The key from the arguments of `key_by`; raises `GraphError` if they are invalid."""
    if len(keys) > 1:
        for key in keys:
            if not isinstance(key, int | str):
                raise GraphError(
                    f"key_by() got {_described(key)} among {len(keys)} arguments, expected indexes "
                    "or field names",
                    hint="for all else, one function that returns a tuple",
                )
            check_item("key_by", key)
        if len(set(keys)) < len(keys):
            raise GraphError(f"key_by() got {', '.join(map(repr, keys))}, expected each once")
        return tuple(keys)  # type: ignore[arg-type]  # checked above
    key = keys[0] if keys else None
    if isinstance(key, list | tuple | set | frozenset):
        hint = "call key_by() for the record itself"
        if key:
            hint = f"several items are several arguments: key_by({', '.join(map(repr, key))})"
        raise GraphError(
            f"key_by() got the {type(key).__name__} {key!r:.80}, expected {_EXPECTED}", hint=hint
        )
    if key is None:
        return None
    if isinstance(key, int | str):
        check_item("key_by", key)
        return key
    check_function("key_by", key, 1, expected=_EXPECTED)
    return key  # type: ignore[return-value]  # checked above


def check_item(method: str, item: object) -> None:
    """Raise `GraphError` unless it can lead to an item of a record."""
    if isinstance(item, str) or (type(item) is int and item >= 0):
        return
    raise GraphError(f"{method}() got {item!r:.80}, expected an index >= 0 or a field name")


def check_keys_alike(method: str, *keys: Key) -> None:
    """Raise `GraphError` where one key has more items than the other.

    Two such keys are equal only if the item of one is a tuple; a user then gives a function.
    Functions may give tuples of any length, and so may records that are their own keys.
    """
    if None in keys:
        return
    left, right = (key if isinstance(key, tuple) else (key,) for key in keys)
    if len(left) == len(right):
        return
    shown = (f"key_by({', '.join(map(repr, key))})" for key in (left, right))
    hint = "name as many on the right as on the left"
    one = min(left, right, key=len)
    if len(one) == 1:
        hint += f"; if {one[0]!r} holds tuples: key_by(lambda record: record[{one[0]!r}])"
    raise GraphError(
        f"{method}() got {' and '.join(shown)}, expected keys of as many items",
        hint=hint,
    )


def found_again(key: Any, values: dict[Any, Any]) -> tuple[Any, Any]:
    """A key, after a look-up in vain, in the form that a dict finds; its value, or `NONE`."""
    for form in KEY_FORMS:
        key = form(key)
        try:
            return key, values.get(key, NONE)
        except TypeError:
            continue
    raise AssertionError("the last form raises")


def unhashable(key: object) -> TypeError:
    """The exception for a value that cannot be a key."""
    return TypeError(
        f"the key {key!r:.80} is a {type(key).__name__}, which is not hashable\n\n"
        "hint: make it a tuple, or another that is, by a function: key_by(lambda record: ...)"
    )


def _refused(key: object) -> Any:
    raise unhashable(key) from None


KEY_FORMS: tuple[Callable[[Any], Any], ...] = (dict_key, comparable_key, _refused)
"""Forms of a key in which a dict may find it; the next is tried if comparing one fails."""


def _itself(record: Any) -> Any:
    return record


def _described(value: object) -> str:
    return f"{type(value).__name__} {value!r:.80}"


NONE: Any = object()
"""Stands for a missing value, since None is a value."""

_EXPECTED = "an index >= 0, a field name or a function"
