"""Numbers of the keys of one task: state of equal keys is kept under one number."""

from collections.abc import Callable, Iterable
from typing import Any

from engine.record import dict_key
from operators.keys import found_again


class KeyNumbers:
    """A number for each key. Keys are equal as in Python, but all NaN are one key."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self.of_numbers: dict[int, Any] = {}
        """The keys by their numbers. It only grows; removing keys replaces it."""
        self._next = FIRST_OTHER

    def of_keys(self, keys: Iterable[Any]) -> list[int]:
        """The numbers of these keys. TypeError for one that is not hashable."""
        keys = list(keys)
        try:
            numbers = list(map(self._numbers.get, keys))
        except TypeError:
            return list(map(self.of_key, keys))
        if None in numbers:
            of_key = self.of_key
            return [
                of_key(key) if number is None else number
                for key, number in zip(keys, numbers, strict=True)
            ]
        return numbers  # type: ignore[return-value]  # none is None

    def of_key(self, key: Any) -> int:
        """The number of a key, a new one if it has none."""
        try:
            key = dict_key(key)
            number = self._numbers.setdefault(key, self._next)
        except TypeError:
            key, _ = found_again(key, self._numbers)
            number = self._numbers.setdefault(key, self._next)
        if number == self._next:
            self.of_numbers[number] = key
            self._next += 1
        return number

    def forget_others(self, rows: int, in_use: Callable[[], Iterable[int]]) -> None:
        """Forget keys without rows, if these are too many for this number of rows."""
        if are_too_many(len(self._numbers), rows):
            used = set(in_use())
            self.of_numbers = {at: key for at, key in self.of_numbers.items() if at in used}
            self._numbers = {key: at for at, key in self.of_numbers.items()}


def are_too_many(keys: int, rows: int) -> bool:
    """Whether there are so many keys for this number of rows that others are to be forgotten."""
    return keys > 2 * rows + (_FEW if rows else 0)


FIRST_OTHER = 1 << 62
"""The number of the first key; columns have integers below it that are their own numbers."""
_FEW = 1024
"""Fewer keys without rows than this are not worth a search."""
