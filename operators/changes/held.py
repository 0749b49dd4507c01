"""What is left of changes of each key, in whatever form rows are."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from operators.changes.change import AFTER, BEFORE, DELETE, INSERT


class Item(NamedTuple):
    """A row that comes, or goes."""

    comes: bool
    identity: Any
    """Equal for equal rows."""
    row: Any
    size: int


class Held:
    """The changes of each key since the first of them: a row that comes and goes leaves nothing."""

    def __init__(self) -> None:
        self.of_keys: dict[Any, tuple[int, list[Item]]] = {}
        """By key since when, and what is held; the oldest first."""
        self.gone: list[Any] = []
        """Rows that are not held any more without having been given; the reader empties it."""
        self.size = 0
        self._empty: set[Any] = set()

    @property
    def since(self) -> int | None:
        """When the oldest came."""
        return next((since for since, _ in self.of_keys.values()), None)

    def add(self, key: Any, kind: int, identity: Any, row: Any, size: int, now_ns: int) -> None:
        """Take a change in."""
        comes = kind in (INSERT, AFTER)
        _, items = self.of_keys.setdefault(key, (now_ns, []))
        for at in range(len(items) - 1, -1, -1):
            if items[at].comes != comes and items[at].identity == identity:
                other = items.pop(at)
                self.size -= other.size
                self.gone += [other.row, row]
                if not items:
                    self._empty.add(key)
                return
        items.append(Item(comes, identity, row, size))
        self.size += size

    def settle(self) -> None:
        """Forget keys of which nothing is left: where no time is kept, between two batches."""
        for key in self._empty:
            if key in self.of_keys and not self.of_keys[key][1]:
                del self.of_keys[key]
        self._empty.clear()

    def due(self, since_ns: int | None) -> Iterator[tuple[Any, int, Any]]:
        """The key, the kind and the row of each change of keys that are as old; None is all."""
        while self.of_keys:
            key, (since, _) = next(iter(self.of_keys.items()))
            if since_ns is not None and since > since_ns:
                return
            yield from self._given(key)

    def over(self, keys: int | None, size: int | None) -> Iterator[tuple[Any, int, Any]]:
        """The same of the oldest keys, until there are no more than these."""
        while self.of_keys and (
            (keys is not None and len(self.of_keys) > keys)
            or (size is not None and self.size > size)
        ):
            yield from self._given(next(iter(self.of_keys)))

    def saved(self) -> Iterator[tuple[Any, list[tuple[int, Any]]]]:
        """Each key with the kinds and rows that are held."""
        for key, (_, items) in self.of_keys.items():
            yield key, [(INSERT if item.comes else DELETE, item.row) for item in items]

    def _given(self, key: Any) -> Iterator[tuple[Any, int, Any]]:
        _, items = self.of_keys.pop(key)
        self._empty.discard(key)
        self.size -= sum(item.size for item in items)
        goes = [item.row for item in items if not item.comes]
        comes = [item.row for item in items if item.comes]
        is_update = len(goes) == len(comes) == 1
        yield from ((key, BEFORE if is_update else DELETE, row) for row in goes)
        yield from ((key, AFTER if is_update else INSERT, row) for row in comes)
