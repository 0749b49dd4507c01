"""Operators of whole batches: what one declares, and its function in each task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.graph.context import TaskContext
from engine.graph.operator import Operator
from engine.graph.watermark import Watermark

if TYPE_CHECKING:
    from engine.state import KeyedState


class BatchOperator(Operator, ABC):
    """A function over whole batches, with whatever state it keeps between them."""

    @abstractmethod
    def open(self, context: TaskContext, /) -> BatchFunction:
        """Make the function of one task."""


@dataclass
class NativeFigures:
    """How often an operator's functions of records ran in Rust, or over columns."""

    native: int = 0
    """The records that came to them."""
    fallbacks: int = 0
    """The batches that held something unusual, and so went through the functions themselves."""
    first_fallback: str | None = None
    """The unusual thing in the first of these batches."""

    def fell_back(self, reason: str) -> None:
        """Count a batch."""
        self.fallbacks += 1
        self.first_fallback = self.first_fallback or reason


class BatchFunction(ABC):
    """A batch operator at work in one task: batches in, batches out, and its state between them.

    Only `process` must be defined; the other methods do nothing by default. The task's thread calls
    `process`, `take_side`, `on_watermark` and `on_timer` in any order, then `on_end`, then `close`,
    and never two at once. Batches that it gives have at most `context.batch_size` records.

    A record of some keys at the end, and failures that are counted:

        class Latest(BatchFunction):
            def __init__(self) -> None:
                self.of_key: dict[str, float] = {}

            def process(self, batch: list[Any]) -> list[Any]:
                for key, text in batch:
                    try:
                        self.of_key[key] = float(text)
                    except ValueError:
                        self.failures += 1
                return []

            def on_end(self) -> Iterable[list[Any]]:
                yield list(self.of_key.items())

            def snapshot(self) -> KeyedState:
                return KeyedState.of(self.of_key.items())

            def restore(self, state: KeyedState) -> None:
                self.of_key = dict(state.items())
    """

    failures: int = 0
    """The number of records that it had to leave out, for the operator's statistics."""

    late: int = 0
    """The number of records that it left out, since they came behind the watermark that closed
    their windows."""

    native: NativeFigures | None = None
    """The figures of its functions of records, if it runs them in Rust."""

    next_timer: int | None = None
    """The time of the next `on_timer`, on the clock of `context.now_ns`; None is never. Any call
    may set it, if there is an `on_timer`. Another thread may set it and then call `context.wake`.
    So after setting it to None, check whether that thread has brought something."""

    full: bool = False
    """Whether the input has to wait now. A timer must be due meanwhile: it is called again and
    again, and may block."""

    in_step: bool = False
    """Whether each record leaves with the batch that brings it although there is an `on_end` or an
    `on_timer`. Without these two, each record does."""

    takes_nothing: bool = False
    """Whether `process` is also called with an empty list: a split of the source gave no record."""

    watermark: Watermark | None = None
    """The watermark behind the last records, if its `Properties` say that it makes watermarks. Any
    call may set it; it is None again when the watermark has left."""

    keeps_nothing: bool = False
    """Whether `process` returns results of its batch alone."""

    def hold_markers(self, stamps: list[int]) -> list[int]:
        """Give the stamps of markers whose records have left, of these and those before.

        These came behind the last batch. Override this if a later call gives the result of a
        record. It is then called behind each batch that leaves, mostly without markers.
        """
        return stamps

    @abstractmethod
    def process(self, batch: Any, /) -> Any:
        """Give a batch for a batch: a list that the caller may keep, or a `pyarrow.RecordBatch`.

        The batch is a list of the function's own, or as the operator's `Properties` say. A list is
        not empty; a RecordBatch without rows tells what columns there are.
        """

    def take_side(self, records: list[Any], /) -> Iterable[Any] | None:
        """Take records of the side input, where the operator has one; between two batches.

        Give what follows from them, in batches; None is nothing.
        """
        raise NotImplementedError(f"{type(self).__name__} takes no records of a side input")

    def on_watermark(self, watermark_us: int, /) -> Iterable[Any] | None:  # noqa: ARG002 - as `commit`
        """Give what was complete when event time has come here, in batches; None is nothing.

        It has risen on every input that is neither idle nor ended. The result goes on in front of
        the watermark. The end of the input is no watermark: it is `on_end`.
        """
        return None

    def on_idle(self) -> None:  # noqa: B027 - most wait for none
        """Take in that all inputs are idle for now: event time goes on without them."""

    def on_timer(self, now_ns: int, /) -> Iterable[Any] | None:  # noqa: ARG002 - as above
        """Give what was due now, in batches; None is nothing.

        `next_timer` is None again. Where more than a few batches are due, set it to `now_ns`: then
        waiting elements come in between. No timer is called after the end of the input.
        """
        return None

    def on_end(self) -> Iterable[Any]:
        """Give what is left, in batches.

        Called once, after the last batch; not where the job fails or is cancelled.
        """
        return ()

    def cancel(self) -> None:  # noqa: B027 - most functions wait for nothing
        """Wake what waits in the function; it then raises `Cancelled`. From any thread."""

    def close(self) -> None:  # noqa: B027 - most functions hold nothing but memory
        """Release resources; called last, however the task ended.

        An error in it is logged and fails no job, so output that must not be lost belongs in
        `on_end`.
        """

    def metrics(self) -> Mapping[str, Any]:
        """Its measurements up to now, by the names of `engine.metric.metrics`; from any thread."""
        return {}

    def snapshot(self) -> KeyedState | None:
        """The state of each key, as it is between two batches; None if it keeps nothing.

        Keys are those of `key_by`: their hashes divide state among tasks, as they divide records.
        """
        return None

    def restore(self, state: KeyedState, /) -> None:
        """Go on with the state of the keys that come to this task; before the first batch."""
        raise NotImplementedError(
            f"{type(self).__name__} has no restore(), and got the state of "
            f"{len(state.entries)} keys"
        )


class PureFunction(BatchFunction):
    """A batch function that is only a function of a batch."""

    keeps_nothing = True

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    @property
    def process(self) -> Callable[[Any], Any]:
        """The function itself: the chain asks for it once, so that nothing stands around it."""
        return self._function
