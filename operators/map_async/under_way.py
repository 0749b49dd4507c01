"""Calls whose results have not left, and the order in which they leave."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import Any


class Call:
    """The call of one record; when it is done, it has a result or an error."""

    __slots__ = ("done", "error", "record", "result", "span", "stamps")

    def __init__(self, record: Any, span: Any = None) -> None:
        self.record = record
        self.span = span
        """The group between watermarks to which it belongs."""
        self.stamps: list[int] | None = None
        """The stamps of the markers behind it."""
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None


class UnderWay(ABC):
    """Calls whose results have not left; another thread calls `done`."""

    @abstractmethod
    def __len__(self) -> int:
        """The number of calls."""

    @abstractmethod
    def add(self, calls: list[Call]) -> None:
        """Add calls, before they begin."""

    @abstractmethod
    def done(self, call: Call) -> None:
        """Note that this call is done."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether a result can leave; from any thread."""

    @abstractmethod
    def calls(self) -> list[Call]:
        """All calls, in the order in which they began."""

    @abstractmethod
    def pop(self) -> Call | None:
        """Take out the call whose result leaves next; None if none can leave now."""


class InOrder(UnderWay):
    """Results leave in the order in which calls began."""

    def __init__(self) -> None:
        self._calls: deque[Call] = deque()

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, calls: list[Call]) -> None:
        """Add calls behind those that began before."""
        self._calls.extend(calls)

    def done(self, call: Call) -> None:
        """Do nothing: a call knows that it is done."""

    def is_ready(self) -> bool:
        """Whether the first is done."""
        try:
            return self._calls[0].done
        except IndexError:
            return False

    def calls(self) -> list[Call]:
        """The calls, in the order in which they leave."""
        return list(self._calls)

    def pop(self) -> Call | None:
        """Take out the first call, if it is done."""
        return self._calls.popleft() if self.is_ready() else None


class AsTheyCome(UnderWay):
    """Results leave in the order in which calls end."""

    def __init__(self) -> None:
        self._calls: dict[Call, None] = {}
        self._done: deque[Call] = deque()

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, calls: list[Call]) -> None:
        """Add calls behind those that began before."""
        self._calls.update(dict.fromkeys(calls))

    def done(self, call: Call) -> None:
        """Add the call behind those that were done before."""
        self._done.append(call)

    def is_ready(self) -> bool:
        """Whether any is done."""
        return bool(self._done)

    def calls(self) -> list[Call]:
        """The calls that are done."""
        return list(self._calls)

    def pop(self) -> Call | None:
        """Take out the first call that was done."""
        if not self._done:
            return None
        call = self._done.popleft()
        del self._calls[call]
        return call
