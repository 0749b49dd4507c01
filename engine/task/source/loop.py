"""The loop of a task that begins in a source: its batches through the chain, and out.

Each batch costs `out = chain.process(batch)` and `deliver(out)`; the rest of this file samples
markers, paces a source with a rate, and counts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from engine.columns import is_columns, part
from engine.graph.context import TaskContext
from engine.graph.partitions import PartitionedSource
from engine.graph.source import SourceOperator
from engine.graph.splits import Split, Splits
from engine.graph.watermark import Watermark
from engine.network import Control
from engine.task.chain import Chain
from engine.task.clock import Clock
from engine.task.drift import Drift
from engine.task.outputs import Deliver, control_of
from engine.task.source.partitions import Partitions
from engine.task.source.prefetch import Prefetch
from engine.task.source.reading import ENDED, Position, Reading, size
from engine.task.source.shares import Shares
from engine.task.timers import Timers
from engine.task.window import SteadyWindow


class SourceLoop:
    """A source at work in one task. `end` and `cancel` may be called from any thread."""

    def __init__(
        self,
        source: SourceOperator[Any],
        chain: Chain,
        marker_interval: int,
        clock: Clock,
        drift: Drift | None = None,
        *,
        has_barriers: bool = False,
    ) -> None:
        self.records = 0
        """The number of emitted records; without a rate, up to the last marker."""
        self.waited_seconds = 0.0
        """Seconds that it has waited for the intended moments of its rate."""
        self._through = 0
        """The number of records in all finished items, if there are barriers."""
        self._source = source
        self._kind: type[Shares | Partitions] = (
            Partitions if isinstance(source, PartitionedSource) else Shares
        )
        self._chain = chain
        self._marker_interval = marker_interval
        self._clock = clock
        self._drift = drift
        self._has_barriers = has_barriers
        self._asked = 0
        """The last epoch whose barrier was asked for."""
        self._passed = 0
        """The last epoch whose barrier was sent."""
        self._is_last = False
        """Whether the barrier that was asked for is the last: no records follow it."""
        self._has_given = not source.properties.gives_again
        """Whether a barrier may come: not in front of a first record that is given again."""
        self._of_item = 0
        """The number of records of the current item that have left, if not all of them were due."""
        self._restored: Mapping[int, Position] = {}
        self.shares = 0
        """The number of shares into which the source is divided."""
        self._reading: Reading | None = None
        """The parts of the source that the task reads, once it is open."""
        self._is_ahead = False
        """Whether another thread reads the source."""
        self._splits = Splits()
        self._left: dict[Split, Position] | None = None
        """The positions behind the records that have left, if the source may be ahead of them."""
        self._moved: Sequence[tuple[Split, Position]] = ()
        """The positions behind the current item, if another thread has read it."""
        self._given_ns = 0
        """The time at which the other thread has read it."""
        self._woken = threading.Event() if drift is None else drift.woken
        """Ends any wait of the loop, which then checks everything."""
        self._ended = self._cancelled = False
        self._hurries = False
        """Whether the source no longer keeps to its rate."""
        self._now_ns = 0
        """The time of the last look at the clock for an intended moment."""

    def run(
        self,
        context: TaskContext,
        deliver: Deliver,
        window: SteadyWindow,
        timers: Timers,
        pass_on: Callable[[Control], None],
    ) -> None:
        """Take all records of the source through the chain, from the restored positions on."""
        self._timers, self._pass_on = timers, pass_on
        items = self._open(context)
        try:
            self._run(items, context, deliver, window)
        finally:
            if not self._is_ahead:
                items.close()

    def _run(
        self, items: Reading, context: TaskContext, deliver: Deliver, window: SteadyWindow
    ) -> None:
        self._window = window
        window.begin()
        rate = self._source.properties.rate
        is_woken = self._chain.has_timers or self._has_barriers
        self._exact_seconds = _ATTENTIVE_SECONDS if is_woken else _INATTENTIVE_SECONDS
        batches: Iterable[Any]
        if self._is_ahead:
            records = 2 * context.batch_size if rate is None else 2
            batches = self._read_ahead(items, records)
        elif self._chain.has_timers:
            batches = self._between_timers(items)
        else:
            batches = iter(items)
        if self._drift is not None:
            batches = self._held(batches, self._drift)
        if self._has_barriers:
            batches = self._between_barriers(batches)
        if rate is None:
            self._run_closed(batches, deliver)
        else:
            per_second = rate * items.part
            self._run_open(batches, deliver, 1e9 / per_second if per_second else 0.0)
        if isinstance(batches, Generator):
            batches.close()  # it may have more if the task was told to stop
        if self._drift is not None:
            self._drift.tell(None)

    def restore(self, positions: Mapping[int, Position], shares: int) -> None:
        """Set the positions of earlier loops, by share, and the number of shares; before `run`."""
        self._restored, self.shares = positions, shares

    @property
    def emitted(self) -> int:
        """The exact number of records that have left, if there are barriers; as `positions`."""
        return max(self.records, self._through)

    @property
    def positions(self) -> Mapping[int, Position]:
        """The positions behind the records that have left, by share.

        Asked between two batches, in the thread of the task.
        """
        if self._reading is None:
            return self._restored
        left = self._left
        if left is not None and self._of_item:
            split = self._splits.current
            position, *before = left[split]
            left = {**left, split: (position, sum(before, self._of_item))}
        return self._reading.positions if left is None else self._reading.positions_of(left)

    def snapshot(self, epoch: int) -> tuple[Mapping[int, Position], bool]:
        """As `positions`, at the barrier of an epoch; whether it wants to know of the commit."""
        positions = self.positions
        is_told = self._reading is not None and self._reading.keep(epoch, positions)
        return positions, is_told

    def ended(self, position: Position) -> Position:
        """The position at the end of a share that is at this one."""
        return self._kind.ended(position)

    def commit(self, epoch: int | None = None) -> None:
        """Tell the source that this epoch is final; None: the job has ended. From any thread."""
        if self._reading is not None:
            self._reading.commit(epoch)

    def abort(self) -> None:
        """Close what waits for a commit: none will come; idempotent, from any thread."""
        if self._reading is not None:
            self._reading.abort()

    @property
    def lag(self) -> int:
        """The number of records that wait in the system in front of the source, if known."""
        return 0 if self._reading is None else self._reading.lag

    def begin_epoch(self, epoch: int, is_last: bool = False) -> None:
        """Send the barrier of this epoch behind the current batch; from any thread.

        Behind the last barrier, it waits for its end, or for another epoch if that one was given
        up.
        """
        self._is_last = is_last
        self._asked = max(self._asked, epoch)
        self.wake()

    def wake(self) -> None:
        """Have the loop call its timers, and check everything else, before it waits on."""
        self._woken.set()

    def _open(self, context: TaskContext) -> Reading:
        self.shares = self.shares or self._kind.count(context.parallelism)
        may_wait = self._kind.reads_ahead and not self._source.properties.never_waits
        self._is_ahead = may_wait and (self._chain.has_timers or self._has_barriers)
        self._splits = context.splits
        self._reading = self._kind(
            self._source, context, self.shares, self._restored, is_ahead=self._is_ahead
        )
        self._reading.pause = self._pause
        context.splits.begin(self._reading.splits)
        if self._has_barriers and (self._is_ahead or self._source.properties.rate is not None):
            self._left = self._reading.reached
        return self._reading

    @property
    def _is_asked(self) -> bool:
        return self._asked > self._passed and self._has_given

    def _pass_barrier(self) -> None:
        self._passed = self._asked
        self._pass_on(Control.barrier(self._passed))
        while self._is_last and not self._is_asked and not self._ended:
            self._woken.wait()
            self._woken.clear()

    def _between_barriers(self, items: Iterable[Any]) -> Iterator[Any]:
        """The items; sends a wanted barrier in between."""
        left, reading = self._left, self._reading
        for item in items:
            try:
                yield item
            finally:  # even if the loop ends here
                self._of_item = 0
                self._through += size(item)
                if left is not None and reading is not None:
                    left.update(self._moved if self._is_ahead else reading.moved())
            self._has_given = self._has_given or type(item) is not list or bool(item)
            if self._is_asked:
                self._pass_barrier()
                if self._ended:  # no record follows the last one
                    return

    def end(self) -> None:
        """Let the source end after its next batch, as if it had no more; idempotent."""
        self._ended = True
        self.hurry()

    def cancel(self) -> None:
        """Let `run` end now, even if the source waits for its next item; idempotent."""
        self._cancelled = True
        self.end()

    def hurry(self) -> None:
        """Stop waiting for the moments of the rate or for other sources."""
        self._hurries = True
        self.wake()

    def _pause(self, wait: Callable[[float], None], seconds: float) -> None:
        """Let the source wait, until the next timer at most."""
        timer = self._timers.call() if self._chain.has_timers else None
        if self._is_asked or self._ended:
            return
        seconds = seconds if timer is None else min(seconds, max(timer, _LEAST_WAIT_SECONDS))
        began_ns = self._clock.now_ns()
        if self._clock.is_virtual:
            self._clock.wait(seconds, self._woken, self._exact_seconds)
            self._woken.clear()
        else:
            wait(seconds)
        self.waited_seconds += (self._clock.now_ns() - began_ns) / 1e9

    def _between_timers(self, items: Iterable[Any]) -> Iterator[Any]:
        """The items; timers are called in between."""
        for item in items:
            self._timers.call()
            yield item

    def _read_ahead(self, reading: Reading, records: int) -> Iterator[Any]:
        """The items, read by another thread, so that timers are called while the source blocks."""
        now_ns = self._clock.now_ns
        told = ((item, (reading.moved(), now_ns())) for item in reading)
        ahead = Prefetch(told, records, self._woken)

        def receive(seconds: float | None = None) -> Any:
            if self._cancelled:
                return None
            if self._is_asked:
                self._pass_barrier()
                if self._ended:
                    return None
            return ahead.receive(None if self._clock.is_virtual else seconds)

        try:
            while (pair := self._timers.receive(receive)) is not None:
                if isinstance(pair, BaseException):
                    raise pair
                item, (self._moved, self._given_ns) = pair
                for split, position in self._moved:
                    if position == ENDED:
                        self._splits.end(split)
                    self._splits.current = split
                yield item
        finally:
            ahead.close()

    def _held(self, items: Iterable[Any], drift: Drift) -> Iterator[Any]:
        """The items; waits before the next while the source is too far ahead of others."""
        for item in items:
            yield item
            if drift.is_ahead:
                drift.is_held = True
                while drift.is_ahead and not self._hurries:
                    if self._is_asked:
                        self._pass_barrier()
                    drift.wait(self._timers.call())
                drift.is_held = False
            if self._ended:
                break

    def _run_closed(self, items: Iterable[Any], deliver: Deliver) -> None:
        """Emit as fast as the pipeline takes it. Records are counted at markers.

        Markers are stamped with the moment at which the source gave the batch.
        """
        process, now_ns = self._chain.process, self._clock.now_ns
        interval = self._marker_interval
        until_marker = interval
        for item in items:
            batch = item if type(item) is list else self._batch_of(item)
            until_marker -= len(batch)
            stamps = None
            if until_marker <= 0:
                markers = 1 + -until_marker // interval
                until_marker += markers * interval
                stamps = [self._given_ns if self._is_ahead else now_ns()] * markers
            out = process(batch)
            try:
                deliver(out, stamps)
                if stamps is not None:
                    self.records += len(stamps) * interval
                    self._window.pass_marker()
            except BaseException:
                self._chain.fails_behind()
                raise
            del item, batch, out  # the next batch reuses this memory, which is in the caches
            if self._ended:
                break
        self.records += interval - until_marker

    def _run_open(self, items: Iterable[Any], deliver: Deliver, ns_per_record: float) -> None:
        """Emit at the source's rate; markers are stamped with its intended moments."""
        process = self._chain.process
        interval = self._marker_interval
        next_marker = interval - 1
        start_ns = self._now_ns = self._clock.now_ns()
        emitted = 0
        for item in items:
            whole = item if type(item) is list else self._batch_of(item)
            for batch in self._as_due(whole, start_ns + emitted * ns_per_record, ns_per_record):
                out = process(batch)
                behind = emitted + len(batch)
                stamps = None
                if behind > next_marker:
                    stamps = [
                        int(start_ns + at * ns_per_record)
                        for at in range(next_marker, behind, interval)
                    ]
                    next_marker += len(stamps) * interval
                try:
                    deliver(out, stamps)
                except BaseException:
                    self._chain.fails_behind()
                    raise
                del batch, out
                self.records = emitted = behind
                if stamps is not None:
                    self._window.pass_marker()
                if self._ended:
                    break
            del item, whole
            if self._ended:
                break

    def _as_due(self, batch: Any, first_ns: float, ns_per_record: float) -> Iterator[Any]:
        """The batch in parts, each as soon as it is due; the first is due at `first_ns`.

        Parts of records that are due within a moment leave together, when the last of them is due.
        """
        records = len(batch)
        if not records:
            yield batch
        most = max(1, int(_TOGETHER_NS / ns_per_record)) if ns_per_record else records
        self._of_item = 0
        while (begin := self._of_item) < records:
            end = min(records, begin + most)
            due_ns = first_ns + (end - 1) * ns_per_record
            if due_ns > self._now_ns:  # otherwise it was due at the last look at the clock
                self._now_ns = self._wait_until(due_ns)
                if self._ended:
                    return
            if self._hurries or not ns_per_record:
                end = records
            else:
                due = 1 + int((self._now_ns - first_ns) / ns_per_record)
                end = min(records, max(end, due))
            self._of_item = end
            yield batch if end - begin == records else part(batch, begin, end)

    def _wait_until(self, due_ns: float) -> int:
        """Wait for this moment, if it has not passed; returns the time."""
        now_ns = self._clock.now_ns()
        while due_ns > now_ns and not self._hurries:
            timer = self._timers.call()
            delay = max((due_ns - now_ns) / 1e9, _LEAST_WAIT_SECONDS)
            delay = delay if timer is None else min(delay, timer)
            if self._is_asked:
                self._pass_barrier()
            began_ns = self._clock.now_ns()
            self._clock.wait(delay, self._woken, self._exact_seconds)
            self._woken.clear()
            now_ns = self._clock.now_ns()
            self.waited_seconds += (now_ns - began_ns) / 1e9
        return now_ns

    def _batch_of(self, item: Any) -> Any:
        """The item as a batch: a record becomes a list, a watermark an empty one."""
        if type(item) is Watermark:
            self._pass_on(control_of(item))
            return []
        if not is_columns(item):
            return [item]
        return self._chain.taken(item)


_ATTENTIVE_SECONDS = 0.001
"""Shorter waits are exact to some 10 µs: whoever wakes the loop waits for their end."""
_INATTENTIVE_SECONDS = 0.05
"""The same if nothing but the end of the job wakes the loop."""
_TOGETHER_NS = 250_000
"""Records that are due within this time leave together: each batch costs some 10 µs of CPU."""
_LEAST_WAIT_SECONDS = 50e-6
"""A wake-up takes over 10 µs of CPU: if batches are due more often, several leave at each."""
