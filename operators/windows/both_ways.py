"""Windows that are computed in both ways, for `native="check"`."""

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any

from engine.network import Batch
from engine.state import KeyedState
from engine.task.compared import check_alike
from operators.windows.values import Result, WindowValues


class BothWays:
    """The same windows with lifted functions and with the functions themselves.

    It is as the first are. Raises NativeDiffers where their results are not the same bytes.
    """

    def __init__(self, lifted: WindowValues, called: WindowValues) -> None:
        self._lifted = lifted
        self._called = called
        self.native = lifted.native

    @property
    def late(self) -> list[Any]:
        """Records that came too late."""
        return self._lifted.late

    @late.setter
    def late(self, records: list[Any]) -> None:
        self._lifted.late = records

    def add(self, batch: Any) -> list[Result]:
        """Add records to both."""
        records = batch.to_list() if type(batch) is Batch else batch
        out = self._lifted.add(batch)
        check_alike(out, self._called.add(records), batch, "reduce")
        check_alike(self._lifted.late, self._called.late, batch, "reduce")
        self._called.late = []
        return out

    def close(self, watermark: float) -> Iterator[list[Result]]:
        """Results of the windows that this watermark completes."""
        nothing: list[Result] = []
        others = self._called.close(watermark)
        for out, other in zip_longest(self._lifted.close(watermark), others, fillvalue=nothing):
            check_alike(out, other, [], "reduce")
            yield out

    def changed(self) -> list[Result]:
        """Results of the windows that changed."""
        out = self._lifted.changed()
        check_alike(out, self._called.changed(), [], "reduce")
        return out

    @property
    def has_changed(self) -> bool:
        """Whether there are any."""
        return self._lifted.has_changed

    def snapshot(self, pickle: bool) -> KeyedState:
        """The state of the first."""
        return self._lifted.snapshot(pickle)

    def restore(self, pairs: Iterable[tuple[Any, Any]], *, touched: bool = False) -> None:
        """Restore the state of some keys in both."""
        pairs = list(pairs)
        self._lifted.restore(pairs, touched=touched)
        self._called.restore(pairs, touched=touched)
