"""Values of Python as columns of one batch, and the stage that makes them of its rows again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeAlias

import pyarrow as pa

from tests.column_programs import Lines, Stage

Shape: TypeAlias = Any
"""The class of a value that a column has; ("column", class) of a list that one has; of other
tuples, lists and dicts the shapes of what is in them."""


def shape_of(value: Any) -> Shape:
    """The shape of a value; ValueError for what no columns have."""
    kind = type(value)
    if kind is int and not -(1 << 63) <= value < 1 << 63:
        raise ValueError(value)
    if kind is str:
        value.encode()
    if kind in (int, str, float, bool, bytes, type(None)):
        return kind
    if kind in (tuple, list):
        inner = tuple(map(shape_of, value))
        if kind is list and len(set(inner)) == 1 and inner[0] in (int, str, float, bool):
            return "column", inner[0]
        return kind, inner
    if kind is dict:
        for key in value:
            if not isinstance(key, str | int | float | None) or key != key:
                raise ValueError(value)
        return kind, tuple((key, type(key), shape_of(each)) for key, each in value.items())
    raise ValueError(value)


@dataclass
class Columns:
    """The columns of values of one shape; `types` draws their types, and some of them nulls."""

    shape: Shape
    random: Random
    holes: bool = False
    values: list[list[Any]] = field(default_factory=list)
    kinds: list[pa.DataType] = field(default_factory=list)

    def stage(self) -> Stage:
        """Of a row, the value."""
        line = Lines()
        register, function = self._of(self.shape, line)
        return "map", function, line.ends(register)

    def batch(self, values: list[Any]) -> pa.RecordBatch:
        """A batch of rows, behind `stage`."""
        self.values = [[] for _ in self.kinds]
        for value in values:
            assert self._put(self.shape, value, 0) == len(self.kinds)
        arrays = [
            self._array(each, kind) for each, kind in zip(self.values, self.kinds, strict=True)
        ]
        arrays.append(pa.array(range(len(values))))
        return pa.RecordBatch.from_arrays(arrays, [f"c{at}" for at in range(len(arrays))])

    def _of(self, shape: Shape, line: Lines) -> tuple[int, Callable[[Any], Any]]:
        if not isinstance(shape, tuple) or shape[0] == "column":
            name = f"c{len(self.kinds)}"
            self.kinds.append(shape)
            return line.field(name), lambda row: row[name]
        kind, inner = shape
        if kind is dict:
            parts = [(key, *self._of(of, line)) for key, _, of in inner]
            operands = [one for key, at, _ in parts for one in (line.constant(key), at)]
            register = line.step("dict", *operands)
            return register, lambda row: {key: function(row) for key, _, function in parts}
        items = [self._of(of, line) for of in inner]
        register = line.step(kind.__name__, *(at for at, _ in items))
        return register, lambda row: kind(function(row) for _, function in items)

    def _put(self, shape: Shape, value: Any, at: int) -> int:
        if not isinstance(shape, tuple) or shape[0] == "column":
            self.values[at].append(value)
            return at + 1
        kind, inner = shape
        of = (
            [(each, value[key]) for key, _, each in inner]
            if kind is dict
            else zip(inner, value, strict=True)
        )
        for each, part in of:
            at = self._put(each, part, at)
        return at

    def _array(self, values: list[Any], kind: Any) -> pa.Array:
        if self.holes and self.random.random() < 0.3:
            values = [None if self.random.random() < 0.3 else value for value in values]
        if isinstance(kind, tuple):
            return pa.array(values, pa.list_(_TYPES[kind[1]][0]))
        for drawn in self.random.sample(_TYPES[kind], len(_TYPES[kind])):
            try:
                array = pa.array(values, drawn)
            except (pa.ArrowInvalid, OverflowError):
                continue
            if repr(array.to_pylist()) == repr(values):
                return array
        return pa.array(values, _TYPES[kind][0])


_TYPES: dict[Any, list[pa.DataType]] = {
    int: [pa.int64(), pa.int8(), pa.int32(), pa.uint16(), pa.uint64()],
    float: [pa.float64(), pa.float32()],
    str: [
        *(pa.string(), pa.large_string(), pa.string_view()),
        pa.dictionary(pa.int16(), pa.string()),
    ],
    bool: [pa.bool_()],
    bytes: [pa.binary(), pa.large_binary()],
    type(None): [pa.null()],
}
