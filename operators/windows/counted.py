"""The state of count windows: how many records each key has had, and its open windows."""

from collections.abc import Iterable, Iterator
from typing import Any

from engine.graph.context import TaskContext
from engine.record import dict_key
from engine.state import KeyedState
from operators.keys import NONE, found_again
from operators.windows.assigners import CountWindow
from operators.windows.fold import Fold
from operators.windows.rows import rows, tell_failing
from operators.windows.state import AT_THE_END, Result
from operators.windows.windowing import Windowing


class Counted:
    """Count windows of one task; see `WindowState`, and `Slices` for `tells_changes`.

    A record is added to each window that is open, so windows need not merge.
    """

    def __init__(self, windowing: Windowing, fold: Fold, context: TaskContext) -> None:
        assigner = windowing.assigner
        assert isinstance(assigner, CountWindow)
        self.late: list[Any] = []
        self._rows = rows(windowing.key, windowing.paired, None, context.rescue)
        self._fold = fold
        self._size = assigner.size
        self._slide = assigner.slide or assigner.size
        self._paired = windowing.paired
        self._failing = context.failing
        self._rescue = context.rescue
        self._of_key: dict[Any, _Key] = {}
        self._changed: dict[Any, None] | None = {} if windowing.emit != "final" else None
        """The keys with open windows that changed."""

    def add(self, batch: list[Any]) -> list[Result]:
        """Take records in; the windows that they fill."""
        out: list[Result] = []
        of_key, rescue, changed = self._of_key, self._rescue, self._changed
        at = iter(batch)
        try:
            for _, key, record in self._rows(at, batch):
                try:
                    try:
                        found = of_key[key]
                    except (KeyError, TypeError):
                        key, found = found_again(key, of_key)
                        if found is NONE:
                            found = of_key[key] = _Key(0, [])
                    full = self._take(found, record)
                    if full is not None:
                        out.append(self._result(key, full, found.count))
                    if changed is not None:
                        changed[key] = None
                except BaseException as error:
                    if rescue is None:
                        raise
                    rescue(record, error)
        except BaseException:
            tell_failing(self._failing, batch, at, self._paired)
            raise
        return out

    def close(self, watermark: float) -> Iterator[Result]:
        """At the end, the windows that are not full."""
        if watermark != AT_THE_END:
            return
        keys = list(self._of_key if self._changed is None else self._changed)
        yield from sorted(self._open(keys), key=lambda result: result[3])
        self._of_key = {}

    def changed(self) -> Iterator[Result]:
        """The open windows of all keys with new records."""
        assert self._changed is not None
        keys = list(self._changed)
        self._changed.clear()
        return self._open(keys)

    @property
    def has_changed(self) -> bool:
        """Whether a key has new records."""
        return bool(self._changed)

    def snapshot(self, pickle: bool) -> KeyedState:
        """Of each key: its count, and where its open windows begin, with their values."""
        kept = ((key, (found.count, found.windows)) for key, found in self._of_key.items())
        return KeyedState.of(kept, pickle=pickle)

    def restore(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Go on."""
        for key, (count, windows) in pairs:
            key = dict_key(key)
            self._of_key[key] = _Key(count, windows)
            if self._changed is not None:
                self._changed[key] = None

    def _take(self, found: "_Key", record: Any) -> tuple[int, Any] | None:
        """Add a record to the windows of its key; the one that is full, which is open no longer."""
        create, combine = self._fold.create, self._fold.add
        windows = [(start, combine(value, record)) for start, value in found.windows]
        if found.count % self._slide == 0:
            windows.append((found.count, record if create is None else create(record)))
        found.count += 1
        full = windows[0] if found.count - windows[0][0] == self._size else None
        found.windows = windows if full is None else windows[1:]
        return full

    def _open(self, keys: Iterable[Any]) -> Iterator[Result]:
        for key in keys:
            found = self._of_key[key]
            for window in found.windows:
                yield self._result(key, window, found.count)

    def _result(self, key: Any, window: tuple[int, Any], end: int) -> Result:
        start, value = window
        if self._fold.value is not None:
            value = self._fold.value(key, value, start, end)
        return key, value, start, end


class _Key:
    """How many records a key has had, and the start and the value of each of its open windows."""

    __slots__ = ("count", "windows")

    def __init__(self, count: int, windows: list[tuple[int, Any]]) -> None:
        self.count = count
        self.windows = windows
