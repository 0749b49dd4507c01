"""The partitions of a source that one task reads, each from its position on.

A share holds the partitions whose numbers leave the same rest when divided by `SHARES`, so that
tasks of any number find them again by the rule for all shares: share j belongs to task j modulo
their number.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

from engine import console
from engine.deployment.reply import text_of
from engine.graph.context import TaskContext
from engine.graph.partitions import PartitionedSource
from engine.graph.source import SourceOperator
from engine.graph.splits import Split, SplitTimes
from engine.task.source.own_partition import OwnPartition
from engine.task.source.reading import ENDED, Position, Reading, of_another_source


class Partitions(Reading):
    """Gives a batch of each partition in turn; those of a bounded source one after the other.

    If an operator tracks the event time of each, a bounded source always goes on with the partition
    that is furthest behind.
    """

    reads_ahead = False

    def __init__(
        self,
        source: SourceOperator[Any],
        context: TaskContext,
        shares: int,
        restored: Mapping[int, Position],
        *,
        is_ahead: bool = False,
    ) -> None:
        assert isinstance(source, PartitionedSource), f"{source!r} has no partitions"
        assert not is_ahead, "the thread of the task reads partitions"
        if shares != SHARES:
            raise of_another_source(f"{_WITHOUT} it is in {shares} shares")
        self._source, self._context = source, context
        self._splits, self._times = context.splits, context.splits.times
        self._now_ns = context.now_ns
        self._live: dict[Split, OwnPartition] = {}
        """The partitions that have not ended."""
        self._ended: dict[Split, None] = {}
        self._changed: dict[Split, None] = {}
        """Those that were found or have ended since the last `moved`."""
        self._told: dict[Split, OwnPartition] = {}
        """Open partitions, ended or not, that want to know what is committed."""
        self._kept: dict[int, dict[Split, Any]] = {}
        """Their positions at the barriers of epochs that are not committed."""
        self._final: dict[Split, Any] = {}
        """Committed positions that they do not know yet."""
        self._is_over = False
        """Whether nothing is read any more: then any thread may tell them."""
        self._is_closed = False
        """Whether the reader is closed."""
        self._lock = threading.Lock()
        self._recent: dict[Split, None] = {}
        """Open partitions that are read by their times, the last one at the end."""
        self._stay = 0
        """The number of further batches of the last one, whatever its time."""
        self._lag_ns = self._silence_ns = context.now_ns()
        """The earliest time of the next look at each."""
        self._discovery_ns: int | None = None
        """The time of the next look for new partitions, if any."""
        self._reader = source.open(context)
        try:
            found = dict(_named(restored))
            if context.open_shares is not None:
                self._reader.restore(name for _, name in found)
            self._discover(found)
        except BaseException:
            self.close()
            self.abort()
            raise
        self.current = next(iter(self._live), (context.index, None))

    @staticmethod
    def count(parallelism: int) -> int:  # noqa: ARG004 - it is the same for all
        """A number that does not depend on the tasks."""
        return SHARES

    @staticmethod
    def ended(position: Position) -> Position:
        """The end of all known partitions of the share; others may come to it."""
        if not position or not isinstance(position[0], dict):
            return position  # another source's: refused when the partitions are opened
        return (dict.fromkeys(position[0], ENDED),)

    @property
    def splits(self) -> list[Split]:
        """The partitions that have not ended."""
        return list(self._live)

    @property
    def reached(self) -> dict[Split, Position]:
        """The position of each partition behind its last batch."""
        live = {split: own.position for split, own in self._live.items()}
        return live | dict.fromkeys(self._ended, ENDED)

    def moved(self) -> list[tuple[Split, Position]]:
        """The changes of `reached` since the last call, with the last one's at the end."""
        changed, self._changed = self._changed, {}
        changed.pop(self.current, None)
        return [
            (split, self._live[split].position if split in self._live else ENDED)
            for split in (*changed, self.current)
            if split in self._live or split in self._ended
        ]

    def positions_of(self, reached: Mapping[Split, Position]) -> dict[int, Position]:
        """The position of each share: those of its partitions by their names."""
        found: dict[int, dict[str, Position]] = {}
        for (share, name), position in reached.items():
            found.setdefault(share, {})[name] = position
        return {share: (names,) for share, names in found.items()}

    def keep(self, epoch: int, positions: Mapping[int, Position]) -> bool:
        """Note the positions of an epoch for the partitions that want to know of commits."""
        if not self._told:
            return False
        with self._lock:
            self._kept[epoch] = {
                split: position[0] if position else self._told[split].position[0]
                for split, position in _named(positions)
                if split in self._told
            }
        return True

    def commit(self, epoch: int | None) -> None:
        """Have the partitions told; in their thread, while there is one."""
        with self._lock:
            for each in sorted(self._kept):
                if epoch is None or each <= epoch:
                    self._final |= self._kept.pop(each)
            if epoch is None:
                self._final = {split: own.position[0] for split, own in self._told.items()}
            if self._is_over:
                self._tell()
        if epoch is None:
            self.abort()

    def close(self) -> None:
        """Close all partitions but those that wait for a commit."""
        with self._lock:
            self._is_over = True
            self.lag = sum(own.lag for own in self._live.values())
            try:
                self._tell()
            finally:
                for split, own in self._live.items():
                    if split not in self._told:
                        self._close(split, own.close)
                if not self._told:
                    self._close_reader()

    def abort(self) -> None:
        """Close the rest: no commit will come; idempotent, behind `close`, from any thread."""
        with self._lock:
            if self._is_over and not self._is_closed:
                for split, own in self._told.items():
                    self._close(split, own.close)
                self._told.clear()
                self._close_reader()

    def __iter__(self) -> Iterator[Any]:
        turn = self._turns()
        while True:
            now_ns = self._now_ns()
            if self._final:
                with self._lock:
                    self._tell()
            if now_ns >= self._lag_ns:
                self._lag_ns = now_ns + _LAG_NS
                self.lag = sum(own.lag for own in self._live.values())
            if self._discovery_ns is not None and now_ns >= self._discovery_ns and self._discover():
                yield []
            splits = turn()
            silent = []
            for split in splits:
                own = self._live[split]
                if not own.is_open:
                    self._open(split, own)
                batch = own.next()
                if batch is not None and not len(batch):
                    silent.append(split)
                    continue
                self._enter(split)
                if batch is None:
                    self._end(split)
                    if not self._goes_on:
                        return
                    batch = []
                yield batch
                del batch  # the next one reuses this memory
            if len(silent) < len(splits):
                if silent:
                    yield from self._silence(silent)
            elif self._goes_on:
                self._rest()
                yield []
                yield from self._silence(silent)
            else:
                return

    @property
    def _goes_on(self) -> bool:
        """Whether records may come."""
        return bool(self._live) or self._discovery_ns is not None

    def _turns(self) -> Callable[[], list[Split]]:
        """The function that gives the partitions of the next round, a batch of each."""
        if not self._source.bounded:
            return lambda: list(self._live)
        if self._times is None:
            return lambda: [*islice(self._live, 1)]
        self._times.waits_for_all = True
        return partial(self._by_time, self._times)

    def _by_time(self, times: SplitTimes) -> list[Split]:
        """The partition that is furthest behind; at most `_MOST_OPEN` stay open."""
        last = next(reversed(self._recent), None)
        if self._stay and last in self._live:
            self._stay -= 1
            return [last]
        self._stay = 0
        split = times.furthest_behind()
        if split is None:
            return []
        own = self._live[split]
        if not own.is_open and own.was_open:
            self._stay = _STAY_BATCHES
        self._recent.pop(split, None)
        self._recent[split] = None
        if len(self._recent) > _MOST_OPEN:
            oldest = next(iter(self._recent))
            del self._recent[oldest]
            if oldest in self._live and oldest not in self._told:
                self._live[oldest].close()
        return [split]

    def _rest(self) -> None:
        """Wait until a partition may have records."""
        seconds = _REST_SECONDS
        if self._discovery_ns is not None:
            until_discovery = (self._discovery_ns - self._now_ns()) / 1e9
            seconds = max(0.0, min(seconds, until_discovery))
        self.pause(self._reader.wait, seconds)

    def _silence(self, splits: Iterable[Split]) -> Iterator[list[Any]]:
        """Tell those who track their times of silent partitions, from time to time."""
        if self._times is None or self._now_ns() < self._silence_ns:
            return
        self._silence_ns = self._now_ns() + _SILENCE_NS
        for split in splits:
            if not self._times.is_left_out(split):
                self._enter(split)
                yield []

    def _enter(self, split: Split) -> None:
        self.current = self._splits.current = split

    def _open(self, split: Split, own: OwnPartition) -> None:
        own.open()
        if own.is_told:
            self._told[split] = own

    def _end(self, split: Split) -> None:
        own = self._live.pop(split)
        self._ended[split] = self._changed[split] = None
        self._splits.end(split)
        if split not in self._told:
            self._close(split, own.close)

    def _discover(self, restored: Mapping[Split, Position] | None = None) -> bool:
        """Look for partitions of the task that are not known; returns whether there are any."""
        if self._source.discover_seconds is not None:
            self._discovery_ns = self._now_ns() + round(self._source.discover_seconds * 1e9)
        names = dict.fromkeys(self._reader.partitions())
        index, parallelism = self._context.index, self._context.parallelism
        found = dict(restored or {})
        known = {name for _, name in (*self._live, *self._ended)}
        for name in names:
            if not isinstance(name, str):
                raise TypeError(f"partitions gave {name!r:.80}, expected names: str")
            if name not in known:
                share = self._source.number(name) % SHARES
                if share % parallelism == index:
                    found.setdefault((share, name), (None,))
        for split, position in found.items():
            if position == ENDED:
                self._ended[split] = None
                continue
            _, name = split
            own = OwnPartition(
                partial(self._reader.open_partition, name), position, self._context.batch_size
            )
            if not self._source.bounded:
                self._open(split, own)
            self._live[split] = own
            self._changed[split] = None
            self._splits.add(split)
        count = len(self._live) + len(self._ended)
        self.part = count / max(count, len(names)) if count else 1 / parallelism
        return bool(found)

    def _tell(self) -> None:
        """Tell partitions what is final, and close those that have ended there."""
        final, self._final = self._final, {}
        for split, position in final.items():
            own = self._told.get(split)
            if own is None:  # it had ended there, and knows
                continue
            own.committed(position)
            if split in self._ended and position == own.position[0]:
                del self._told[split]
                self._close(split, own.close)

    def _close_reader(self) -> None:
        self._is_closed = True
        self._close(None, self._reader.close)

    def _close(self, split: Split | None, close: Callable[[], None]) -> None:
        """Close a partition, or the reader: all records have been read, whatever it raises."""
        try:
            close()
        except BaseException as error:  # noqa: BLE001 - it is the user's, and is told
            what = "the reader of partitions" if split is None else f"partition {split[1]!r}"
            console.write(f"{what} could not be closed: {text_of(error)}\n")


def _named(positions: Mapping[int, Position]) -> Iterator[tuple[Split, Position]]:
    """The position of each partition in those of shares."""
    for share, position in positions.items():
        if len(position) != 1 or not isinstance(position[0], dict):
            raise of_another_source(f"{_WITHOUT} share {share} is at {position!r:.80}")
        for name, each in position[0].items():
            yield (share, name), each


SHARES = 5040
"""The number of shares of each source of partitions. It can be divided by 1 to 10, 12 and 14 to 16,
so that partitions of successive numbers are balanced over as many tasks."""
_WITHOUT = "the position of a source without partitions:"
_REST_SECONDS = 0.1
"""Barriers and the end of the job wait so long while no partition has records."""
_SILENCE_NS = 100_000_000
_LAG_NS = 1_000_000_000
_MOST_OPEN = 16
"""Open partitions of a bounded source that is read by event time."""
_STAY_BATCHES = 64
"""Batches that are read of a partition that had to be opened again, which may be expensive."""
