"""Lookup joins: records with the value of their key from elsewhere, such as a database."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from engine.columns import import_pyarrow, is_columns
from engine.errors import GraphError
from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.checks import check_integer
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.record import dict_key
from operators.durations import check_duration, nanoseconds
from operators.elementwise import check_function
from operators.keys import NONE, check_item, key_finder, unhashable

if TYPE_CHECKING:
    import pyarrow as pa

    from operators.columns.values import ValueColumn


class Lookup(ABC):
    """A look-up of values by key, such as in a database; write your own.

    It is pickled, and each task opens its own.

        class Users(Lookup):
            def open(self):
                self.connection = connect(DSN)

            def find(self, keys):
                query = "SELECT id, name FROM users WHERE id = ANY(%s)"
                return dict(self.connection.execute(query, [keys]).fetchall())

            def close(self):
                self.connection.close()
    """

    def open(self) -> None:  # noqa: B027 - a table needs none
        """Connect; called once in each task, before the first record."""

    @abstractmethod
    def find(self, keys: list[Any], /) -> Mapping[Any, Any]:
        """The values by key, without keys that have none; `keys` are a batch's distinct keys."""

    def close(self) -> None:  # noqa: B027 - as above
        """Release the resources of `open`; called last."""


@dataclass(frozen=True)
class Cache:
    """The values that a task keeps: those of the `size` last used keys, each for `ttl` at most.

    It keeps missing values, too. Without `ttl`, a value stays until newer ones replace it.
    """

    size: int
    ttl: timedelta | None = None

    def __post_init__(self) -> None:
        check_integer("Cache(): size", self.size, 1)
        if self.ttl is not None:
            check_duration("Cache(): ttl", self.ttl)


@dataclass(frozen=True)
class LookupJoin(BatchOperator):
    """Looks a value up for each record; see `Stream.lookup_join`."""

    lookup: Lookup | Mapping[Any, Any] | Callable[[Any], Any]
    key: Any
    function: Callable[[Any, Any], Any] | None = None
    how: Literal["inner", "left"] = "inner"
    cache: Cache | None = None
    value_type: Any = None
    """Over columns, the `pyarrow.DataType` of values."""

    @property
    def properties(self) -> Properties:
        """It takes columns, unless a function gets a record."""
        functions = self.function is not None or self.key is None or callable(self.key)
        return Properties(accepts_columns=not functions)

    def __post_init__(self) -> None:
        if not isinstance(self.lookup, Lookup | Mapping):
            check_function("lookup_join", self.lookup, 1, "a dict, a function or a Lookup")
        keys = self.key if isinstance(self.key, tuple) else (self.key,)
        if callable(self.key):
            check_function("lookup_join", self.key, 1)
        elif self.key is not None:
            for key in keys:
                check_item("lookup_join", key)
        if self.function is not None:
            check_function("lookup_join", self.function, 2)
        if self.how not in ("inner", "left"):
            raise GraphError(
                f"lookup_join() got how={self.how!r:.80}, expected one of 'inner', 'left'"
            )
        if self.cache is not None and not isinstance(self.cache, Cache):
            raise GraphError(
                f"lookup_join() got cache={self.cache!r:.80}, expected a Cache",
                hint="Cache(100_000, ttl=timedelta(minutes=1))",
            )
        if self.value_type is not None:
            expected = import_pyarrow("lookup_join(value_type=...)").DataType
            if not isinstance(self.value_type, expected):
                raise GraphError(
                    f"lookup_join() got value_type={self.value_type!r:.80}, expected a type of "
                    "PyArrow",
                    hint="value_type=pa.string()",
                )

    def open(self, context: TaskContext) -> BatchFunction:
        """The lookup of one task."""
        return _LookupJoin(self, context)


class _LookupJoin(BatchFunction):
    """Looks up the keys that the cache does not have, all keys of a batch at once."""

    def __init__(self, operator: LookupJoin, context: TaskContext) -> None:
        self._operator = operator
        self._failing = context.failing
        self._now_ns = context.now_ns
        self._find_key = operator.key if callable(operator.key) else key_finder(operator.key)
        self._kept: _Kept | None = None
        if operator.cache is not None:
            self._kept = _Kept(operator.cache)
        self._column: ValueColumn | None = None
        self._lookup = operator.lookup
        if isinstance(self._lookup, Lookup):
            self._lookup.open()

    def process(self, batch: Any) -> Any:
        """Each record with its value."""
        if is_columns(batch):
            return self._beside(batch)
        keys = self._keys(batch)
        found = self._found(keys, batch)
        pairs = [(record, found[key]) for record, key in zip(batch, keys, strict=True)]
        if self._operator.how == "inner":
            pairs = [pair for pair in pairs if pair[1] is not None]
        function = self._operator.function
        if function is None:
            return pairs
        at = iter(pairs)
        try:
            return [function(record, value) for record, value in at]
        except BaseException:
            self._failing.at(pairs, at)
            raise

    def close(self) -> None:
        """Close the lookup."""
        if isinstance(self._lookup, Lookup):
            self._lookup.close()

    def _beside(self, batch: "pa.RecordBatch") -> "pa.RecordBatch":
        """The rows with a column of their values. An error names the key."""
        operator = self._operator
        from operators.columns.numbers import distinct_keys, key_columns
        from operators.columns.values import ValueColumn

        found, rows = distinct_keys(key_columns(operator.key, batch), operator.key)
        keys = [key if key == key else dict_key(key) for key in found]
        values = self._found(keys, keys)
        if self._column is None:
            self._column = ValueColumn(operator.how == "left", operator.value_type)
        return self._column.beside(batch, [values[key] for key in keys], rows)

    def _keys(self, batch: list[Any]) -> list[Any]:
        """The key of each record, as a dict finds it."""
        at = iter(batch)
        keys: list[Any] = []
        try:
            for record in at:
                key = self._find_key(record)
                if key != key:
                    key = dict_key(key)
                keys.append(key)
        except BaseException:
            self._failing.at(batch, at)
            raise
        return keys

    def _found(self, keys: list[Any], batch: list[Any]) -> dict[Any, Any]:
        """The values of these keys."""
        try:
            found = dict.fromkeys(keys)
        except TypeError:
            raise unhashable(next(key for key in keys if not _is_hashable(key))) from None
        missing = list(found)
        kept = self._kept
        if kept is not None:
            now_ns = self._now_ns()
            found = {key: kept.get(key, now_ns) for key in missing}
            missing = [key for key, value in found.items() if value is NONE]
        if missing:
            looked_up = self._look_up(missing, keys, batch)
            found |= looked_up
            if kept is not None:
                kept.put(looked_up, self._now_ns())
        return found

    def _look_up(self, missing: list[Any], keys: list[Any], batch: list[Any]) -> dict[Any, Any]:
        """The values of the keys, and None for keys without one."""
        lookup = self._lookup
        if isinstance(lookup, Mapping):
            return {key: lookup.get(key) for key in missing}
        if isinstance(lookup, Lookup):
            given = lookup.find(missing)
            if not isinstance(given, Mapping):
                raise TypeError(
                    f"{type(lookup).__name__}.find() gave {type(given).__name__} {given!r:.80}, "
                    "expected a dict of values by keys"
                )
            return {key: given.get(key) for key in missing}
        found = {}
        for key in missing:
            try:
                found[key] = lookup(key)
            except BaseException:
                self._failing.on(batch[keys.index(key)])
                raise
        return found


class _Kept:
    """The cache of one task: values by key, with the last used one at the end."""

    def __init__(self, cache: Cache) -> None:
        self._size = cache.size
        self._ttl_ns = None if cache.ttl is None else nanoseconds(cache.ttl)
        self._values: dict[Any, tuple[Any, int]] = {}
        """The values, each with the time of its look-up."""

    def get(self, key: Any, now_ns: int) -> Any:
        """The value, or `NONE`."""
        entry = self._values.pop(key, None)
        if entry is None or (self._ttl_ns is not None and now_ns - entry[1] >= self._ttl_ns):
            return NONE
        self._values[key] = entry
        return entry[0]

    def put(self, found: Mapping[Any, Any], now_ns: int) -> None:
        """Keep these values, and drop those that were unused for longest."""
        self._values |= {key: (value, now_ns) for key, value in found.items()}
        for _ in range(len(self._values) - self._size):
            del self._values[next(iter(self._values))]


def _is_hashable(key: Any) -> bool:
    try:
        hash(key)
    except TypeError:
        return False
    return True
