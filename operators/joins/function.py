"""A join at work in one task: its state, behind records of two inputs, watermarks and the end."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Protocol, TypeAlias

from engine.columns import is_columns, refusal
from engine.graph.operator import BatchFunction, Properties, TaskContext, Watermark
from engine.state import KeyedState
from operators.joins.joining import Joining

Pair: TypeAlias = tuple[Any, Any]
"""A left and a right record; None stands for one that there is not."""

LATE = "late"
"""The side output of records that came too late."""

NEVER = float("-inf")
"""The watermark before the first."""
AT_THE_END = float("inf")
"""The watermark behind the last record."""


class JoinState(Protocol):
    """What one task keeps of both inputs: records and watermarks go in, partners come out."""

    late: list[Any]
    """Records that came too late, as they came; whoever reads them empties it."""

    @property
    def kept(self) -> int:
        """Records that are kept, since partners may still come."""

    def add(self, side: int, batch: list[Any]) -> list[Pair]:
        """Take records of the left (0) or the right (1) in; the partners that they make."""

    def close(self, watermark: float) -> Iterator[Pair]:
        """What there is when all that follow are later than this, in microseconds.

        It is to be read to its end. Records without partners to come have left nothing behind.
        """

    def snapshot(self) -> Iterable[tuple[Any, Any]]:
        """What is kept of each key."""

    def restore(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Go on with what was kept of some keys; before the first record."""


PROPERTIES = Properties(
    accepts_encoded=True, two_inputs=True, outputs=(LATE,), makes_watermarks=True
)
"""Of all joins: they tell those behind of a watermark that holds for the times of both partners."""


class JoinFunction(BatchFunction):
    """Brings records and watermarks to the state, and late records to their output.

    What is behind hears of watermarks `delay` earlier: records are kept for that long at most, so
    that no time of a record in a result is behind what was told before.
    """

    def __init__(
        self, name: str, joining: Joining, state: JoinState, delay: int, context: TaskContext
    ) -> None:
        self._name = name
        self._joining = joining
        self._state = state
        self._delay = delay
        self._context = context
        self._send_late = context.side_outputs.get(LATE)

    def process(self, batch: Any) -> list[Any]:
        """What a batch of one of the inputs makes, with what has come of both."""
        records, state = batch.decode(), self._state
        if is_columns(records):
            raise refusal(
                self._name, records, "call .to_records() on both streams before .key_by()"
            )
        pairs = state.add(batch.input, records)
        if state.late:
            late, state.late = state.late, []
            self.late += len(late)
            if self._send_late is not None:
                self._send_late(late)
        return self._joining.made(pairs, self._context.failing)

    def on_watermark(self, watermark_us: int) -> Iterator[list[Any]]:
        """What is complete now; those behind hear of the watermark as far as it is theirs."""
        yield from self._close(watermark_us)
        self.watermark = Watermark(watermark_us - self._delay)

    def on_idle(self) -> None:
        """Nobody waits for what comes of here, either."""
        self.watermark = Watermark(None)

    def on_end(self) -> Iterator[list[Any]]:
        """All that is left."""
        return self._close(AT_THE_END)

    def metrics(self) -> Mapping[str, Any]:
        """The size of the state."""
        return {"state_records": self._state.kept}

    def snapshot(self) -> KeyedState:
        """What is kept of each key."""
        return KeyedState.of(self._state.snapshot(), pickle=self._context.pickle)

    def restore(self, state: KeyedState) -> None:
        """Go on with that."""
        self._state.restore(state.items())

    def _close(self, watermark: float) -> Iterator[list[Any]]:
        """In batches, so that what is behind is not held up by thousands of results."""
        pairs = self._state.close(watermark)
        while batch := list(islice(pairs, self._context.batch_size)):
            yield self._joining.made(batch, self._context.failing)
