"""One answer from the results of several operators for a request."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from engine.errors import GraphError
from engine.gateway import Request
from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from operators.stream import Stream


def combine(
    *branches: Stream[tuple[Request, Any]], wait_ms: float | None = None, missing: Any = None
) -> Stream[tuple[Request, tuple[Any, ...]]]:
    """The results of all branches for a request, in the branches' order: `(request, (a, b))`.

    Each branch gives pairs of a request and its part, once for each request:

        words = requests.map(lambda r: (r, model(r.text())))
        users = requests.map(lambda r: (r, profile(r.query["user"])))
        combine(words, users).map(lambda both: both[0].reply(merge(*both[1]))).respond()

    A request is combined when the last part has come. With `wait_ms`, it is combined this long
    after the first part at the latest, with `missing` in place of missing parts. Otherwise the
    operator drops incomplete parts at the request's deadline, when the client gets a 504, and
    counts them as failures. A branch whose function raises has answered the request with 500.
    """
    if len(branches) < 2:
        raise GraphError(f"combine() got {len(branches)} streams, expected at least two")
    if wait_ms is not None and not 0 <= wait_ms < float("inf"):
        raise GraphError(f"wait_ms is {wait_ms!r}, expected a number >= 0")
    first, *others = (
        branch.map_batches(_Numbered(number)) for number, branch in enumerate(branches)
    )
    parts = first.union(*others).key_by(0)
    return parts.then(Combine(len(branches), wait_ms, missing))


@dataclass(frozen=True)
class _Numbered:
    """Puts the request's id and the number of the branch in front of a part."""

    number: int

    def __call__(self, batch: list[tuple[Request, Any]]) -> list[tuple[int, int, Request, Any]]:
        number = self.number
        return [(request.id, number, request, part) for request, part in batch]


@dataclass(frozen=True)
class Combine(BatchOperator):
    """Combines the parts of one id: (id, branch, request, part)."""

    branches: int
    wait_ms: float | None = None
    missing: Any = None

    def open(self, context: TaskContext) -> BatchFunction:
        """Without parts."""
        return _Combine(self, context)


@dataclass(slots=True)
class _Parts:
    request: Request
    values: list[Any]
    left: set[int]
    """The branches whose part is missing."""
    due_ns: int
    """The end of the wait for it."""


class _Combine(BatchFunction):
    def __init__(self, operator: Combine, context: TaskContext) -> None:
        self._operator = operator
        self._context = context
        self._waiting: dict[int, _Parts] = {}
        """The incomplete requests by id, in the order of their first parts."""

    def process(self, batch: list[tuple[int, int, Request, Any]]) -> list[Any]:
        waiting, out = self._waiting, []
        for name, branch, request, value in batch:
            parts = waiting.get(name)
            if parts is None:
                parts = waiting[name] = self._begun(request)
            parts.values[branch] = value
            parts.left.discard(branch)
            if not parts.left:
                del waiting[name]
                out.append((request, tuple(parts.values)))
        self._set_timer()
        return out

    def on_timer(self, now_ns: int) -> Iterator[list[Any]]:
        late = []
        while self._waiting:
            name, parts = next(iter(self._waiting.items()))
            if parts.due_ns > now_ns:
                break
            del self._waiting[name]
            late.append(parts)
        self._set_timer()
        if self._operator.wait_ms is None:
            self.failures += len(late)
            return
        size = self._context.batch_size
        for first in range(0, len(late), size):
            yield [(each.request, tuple(each.values)) for each in late[first : first + size]]

    def on_end(self) -> Iterator[list[Any]]:
        """Count incomplete requests as failures, since no further parts will come."""
        self.failures += len(self._waiting)
        return iter(())

    def _begun(self, request: Request) -> _Parts:
        count, wait_ms = self._operator.branches, self._operator.wait_ms
        seconds = request.deadline - time.time() if wait_ms is None else wait_ms / 1e3
        due_ns = self._context.now_ns() + int(max(seconds, 0.0) * 1e9)
        values = [self._operator.missing] * count
        return _Parts(request, values, set(range(count)), due_ns)

    def _set_timer(self) -> None:
        self.next_timer = next((each.due_ns for each in self._waiting.values()), None)
