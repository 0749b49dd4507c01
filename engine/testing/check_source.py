"""A conformance test of sources of partitions: no record is lost or comes twice, wherever it stops.

It does with a source what a job does, step by step and without a job: it opens partitions, polls
them, stops behind every poll, and goes on at the position that a checkpoint would have.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from engine.graph.context import TaskContext
from engine.graph.partitions import Partition, PartitionedSource, PartitionReader
from engine.record import code_pickle
from engine.task.source.own_partition import as_batches
from engine.task.source.partitions import SHARES, Partitions
from engine.task.source.reading import Position
from engine.testing.check_failed import CheckFailed, calling, rows_of, sent, shown, stored


def check_source(
    source: PartitionedSource[Any],
    *,
    batch_size: int = 4,
    idle_seconds: float = 1.0,
    most_positions: int = 50,
) -> None:
    """Check a source of partitions; CheckFailed names the first promise that it does not keep.

    The system in front of it must stand still meanwhile, and have at least two partitions with
    different records, some times `batch_size` each: `poll` gets that as its limit. Where partitions
    do not end, all records are read when none has come for `idle_seconds`. It stops behind each
    poll of a partition, at most at `most_positions` places. Positions are told to `committed` last:
    a system that drops what is committed is then without these records.
    """
    check = _Check(sent(source), batch_size, idle_seconds)
    check.names()
    check.whole()
    check.positions(most_positions)
    check.tasks()
    check.commits()


@dataclass
class _Read:
    """What was read of a partition: rows, and the position behind each poll."""

    rows: list[bytes] = field(default_factory=list)
    positions: list[tuple[int, Any]] = field(default_factory=list)
    """The number of rows, and the position there; the first is in front of all."""


class _Check:
    def __init__(self, source: PartitionedSource[Any], size: int, idle_seconds: float) -> None:
        self._source, self._size, self._idle_seconds = source, size, idle_seconds
        self._kind = type(source).__name__
        self._names: list[str] = []
        self._whole: dict[str, _Read] = {}
        """Each partition from its start to its end."""

    def names(self) -> None:
        """Names stay, and numbers do not depend on the process."""
        with calling(f"{self._kind}.validate"):
            self._source.validate()
        with closing(self._reader()) as reader, calling(f"{self._kind}: partitions()"):
            self._names = list(reader.partitions())
            again = list(reader.partitions())
        wrong = [name for name in self._names if not isinstance(name, str)]
        if wrong or len(set(self._names)) < len(self._names) or not self._names:
            raise CheckFailed(
                f"{self._kind}: partitions() gave {self._names!r:.200}, expected names: at least "
                "one, and each once",
                "a partition is found again by its name, a str",
            )
        with closing(self._reader(1, 2)) as reader:
            others = set(reader.partitions())
        if new := {*again, *others} - set(self._names):
            raise CheckFailed(
                f"{self._kind}: partitions() gave the new name {min(new)!r}, expected the same "
                "names in each call and each task",
                "a name that changes is another partition, and is read again",
            )
        if type(self._source).number is PartitionedSource.number:
            return
        here = {name: self._source.number(name) for name in self._names}
        elsewhere = _numbers_elsewhere(self._source, self._names)
        for name, number in here.items():
            if elsewhere[name] != number:
                raise CheckFailed(
                    f"{self._kind}: number({name!r}) is {number}, and {elsewhere[name]} in another "
                    "process, expected one number: two tasks would read the partition, or none",
                    "hash() of a str is another one in each process; zlib.crc32 is not",
                )

    def whole(self) -> None:
        """Each partition has records of its own, no poll gives too many, and the end stays."""
        self._whole = self._read(dict.fromkeys(self._names), {})
        with_rows = {name: each.rows for name, each in self._whole.items() if each.rows}
        polls = max(len(each.positions) - 1 for each in self._whole.values())
        if len(with_rows) < 2 or polls < 3:
            raise CheckFailed(
                f"{self._kind}: {len(with_rows)} of {len(self._names)} partitions have records, "
                f"in at most {polls} polls; expected two at least, and 3 polls",
                "this shows nothing: give the check more records, or a smaller batch_size",
            )
        known: dict[tuple[bytes, ...], str] = {}
        for name, rows in with_rows.items():
            other = known.setdefault(tuple(rows), name)
            if other != name:
                raise CheckFailed(
                    f"{self._kind}: partitions {other!r} and {name!r} have the same records "
                    f"({shown(rows)}), expected each record in one partition",
                    "open_partition has to read the partition of its name alone; if the records "
                    "are alike, give the check different ones",
                )

    def positions(self, most: int) -> None:
        """From the position behind each poll come exactly the records behind it."""
        steps = max(len(each.positions) for each in self._whole.values())
        chosen = sorted({round(at * (steps - 1) / max(1, most - 1)) for at in range(most)})
        for step in chosen if steps > most else range(steps):
            starts = {
                name: each.positions[min(step, len(each.positions) - 1)]
                for name, each in self._whole.items()
            }
            found = self._read(
                {name: position for name, (_, position) in starts.items()},
                {name: self._whole[name].rows[count:] for name, (count, _) in starts.items()},
            )
            for name, (count, position) in starts.items():
                self._compare(name, count, position, found[name].rows)

    def tasks(self) -> None:
        """Tasks of any number read each partition once, wherever they were stopped before."""
        chance = random.Random(1)
        came: dict[str, list[bytes]] = {name: [] for name in self._names}
        positions: dict[int, Position] = {}
        total = sum(len(each.rows) for each in self._whole.values())
        for number, parallelism in enumerate((2, 3, 1, 2)):
            after: dict[int, Position] = {}
            readings = []
            for index in range(parallelism):
                own = {s: at for s, at in positions.items() if s % parallelism == index}
                readings.append(self._reading(index, parallelism, own, goes_on=number > 0))
            with calling(f"{self._kind}: {parallelism} tasks at once"):
                for reading in readings:
                    left = chance.randrange(total // 4) if number < 3 else total + 1
                    self._take(reading, left, came)
                for reading in readings:
                    after |= reading.positions
                    reading.close()
                    reading.abort()
            positions = after
        for name, rows in came.items():
            expected = self._whole[name].rows
            if rows != expected:
                raise CheckFailed(
                    f"{self._kind}: tasks that were stopped and went on in another number read "
                    f"{_difference(rows, expected)} of partition {name!r}, expected each record "
                    "once and in order",
                    "do partitions or readers of the same process share what they have read?",
                )

    def commits(self) -> None:
        """A commit drops nothing behind its position."""
        for name, each in self._whole.items():
            middle = len(each.positions) // 2
            count, position = each.positions[middle]
            with closing(self._reader(names=[name])) as reader:
                partition = self._open(reader, name, None)
                for _ in range(2 * middle):
                    self._poll(partition, name)
                with calling(f"{self._kind}: committed({position!r:.100}) of partition {name!r}"):
                    partition.committed(position)
                partition.close()
            found = self._read({name: position}, {name: each.rows[count:]})[name].rows
            if found != each.rows[count:]:
                raise CheckFailed(
                    f"{self._kind}: behind committed({position!r:.100}) of partition {name!r}, "
                    f"that position gives {_difference(found, each.rows[count:])}, expected all "
                    "behind it",
                    "committed has to take the position that it is given, not what was polled: "
                    "a job that fails goes on from there",
                )

    def _compare(self, name: str, count: int, position: Any, found: list[bytes]) -> None:
        """Name the mistake, if what came from a position is not what is behind it."""
        whole = self._whole[name].rows
        expected = whole[count:]
        if found == expected:
            return
        place = f"{self._kind}: partition {name!r}, opened at position {position!r:.100}"
        if not expected:
            raise CheckFailed(
                f"{place}, which is its end, gives {shown(found)}, expected no record",
                "the end has a position of its own, from which poll gives None, or [] where "
                "records may come",
            )
        if position in [at for rows, at in self._whole[name].positions if rows < count]:
            what = f"gives {len(found) - len(expected)} records again: {shown(found)}"
            hint = "position has to be behind the last poll, not in front of it"
        elif found == whole:
            what = f"begins anew with {shown(found)}"
            hint = "open_partition has to begin at its position if that is not None"
        elif len(found) > len(expected) and found[-len(expected) :] == expected:
            what = f"gives {len(found) - len(expected)} records again: {shown(found)}"
            hint = "position has to be behind the last poll, not in front of it"
        elif len(found) < len(expected) and expected[len(expected) - len(found) :] == found:
            lost = expected[: len(expected) - len(found)]
            what = f"loses {len(lost)} records: {shown(lost)}"
            hint = "position must not be ahead of what poll has given"
        elif sorted(found) == sorted(expected):
            what = f"gives the records in another order: {shown(found)}"
            hint = "a partition has one order, the same each time"
        else:
            what = f"gives {_difference(found, expected)}"
            hint = "a position stands for the records behind it, in their order"
        raise CheckFailed(
            f"{place} behind {count} records, {what}; expected {shown(expected)}", hint
        )

    def _read(
        self, starts: Mapping[str, Any], expected: Mapping[str, Sequence[bytes]]
    ) -> dict[str, _Read]:
        """Read partitions from their positions to their ends.

        Of partitions that do not end, it waits for all that is `expected`.
        """
        goes_on = any(position is not None for position in starts.values())
        found: dict[str, _Read] = {}
        with closing(self._reader(names=starts if goes_on else None)) as reader:
            rounds = [[name] for name in starts] if self._source.bounded else [list(starts)]
            for names in rounds:
                opened = {name: self._open(reader, name, starts[name]) for name in names}
                for name, partition in opened.items():
                    found[name] = _Read(positions=[(0, self._position(partition, name))])
                self._read_all(reader, opened, found, expected)
                for name, partition in opened.items():
                    with calling(f"{self._kind}: close() of partition {name!r}"):
                        partition.close()
        return found

    def _read_all(
        self,
        reader: PartitionReader,
        opened: Mapping[str, Partition],
        found: Mapping[str, _Read],
        expected: Mapping[str, Sequence[bytes]],
    ) -> None:
        left = dict(opened)
        quiet = time.monotonic()
        while left:
            has_come = False
            for name, partition in list(left.items()):
                each = found[name]
                rows = self._poll(partition, name)
                if rows is None:
                    del left[name]
                elif rows:
                    has_come = True
                    each.rows += rows
                    each.positions.append((len(each.rows), self._position(partition, name)))
            if has_come:
                quiet = time.monotonic()
                continue
            complete = expected and all(len(found[n].rows) >= len(expected[n]) for n in left)
            seconds = _LEAST_SECONDS if complete else self._idle_seconds
            if time.monotonic() - quiet >= seconds:
                return
            if left:
                reader.wait(min(seconds, _WAIT_SECONDS))

    def _poll(self, partition: Partition, name: str) -> list[bytes] | None:
        with calling(f"{self._kind}: poll({self._size}) of partition {name!r}"):
            given = partition.poll(self._size)
            if given is None:
                return None
            batches = list(as_batches(given, self._size))
        count = sum(map(len, batches))
        if count > self._size and type(given) is list:
            raise CheckFailed(
                f"{self._kind}: poll({self._size}) of partition {name!r} gave {count} records, "
                f"expected at most {self._size}",
                "the limit bounds the memory of a task; keep the others for the next poll",
            )
        return [row for batch in batches for row in rows_of(batch)]

    def _position(self, partition: Partition, name: str) -> Any:
        what = f"{self._kind}: position of partition {name!r}"
        with calling(what):
            position = partition.position
        return stored(what, position)

    def _open(self, reader: PartitionReader, name: str, position: Any) -> Partition:
        with calling(f"{self._kind}: open_partition({name!r}, {position!r:.100})"):
            partition = reader.open_partition(name, position)
        if not isinstance(partition, Partition):
            raise CheckFailed(
                f"{self._kind}: open_partition({name!r}) gave {partition!r:.100}, expected a "
                "Partition",
                "make it a subclass of operators.Partition",
            )
        return partition

    def _reader(
        self, index: int = 0, parallelism: int = 1, names: Collection[str] | None = None
    ) -> PartitionReader:
        with calling(f"{self._kind}.open"):
            reader = self._source.open(self._context(index, parallelism, names is not None))
            if names is not None:
                reader.restore(names)
        return reader

    def _context(self, index: int, parallelism: int, goes_on: bool) -> TaskContext:
        context = TaskContext(
            f"check[{index}]", index, parallelism, self._size, "check", identity="check"
        )
        return replace(
            context, checkpoints=True, open_shares=frozenset(range(SHARES)) if goes_on else None
        )

    def _reading(
        self, index: int, parallelism: int, positions: Mapping[int, Position], *, goes_on: bool
    ) -> Partitions:
        kept = {share: stored("a position", position) for share, position in positions.items()}
        reading = Partitions(self._source, self._context(index, parallelism, goes_on), SHARES, kept)
        reading.pause = lambda wait, seconds: wait(seconds)
        return reading

    def _take(self, reading: Partitions, most: int, came: Mapping[str, list[bytes]]) -> None:
        """Take some batches of a task, or all that there is."""
        quiet = time.monotonic()
        for batch in reading:
            if len(batch):
                came[reading.current[1]].extend(rows_of(batch))
                most -= len(batch)
                quiet = time.monotonic()
            if most < 0 or time.monotonic() - quiet > self._idle_seconds:
                return


def _difference(found: Sequence[bytes], expected: Sequence[bytes]) -> str:
    """What is wrong with these rows, in words."""
    came, wanted = Counter(found), Counter(expected)
    left, more = list((wanted - came).elements()), list((came - wanted).elements())
    said = [f"{shown(left)} not at all"] if left else []
    said += [f"{shown(more)} more than once"] if more else []
    return " and ".join(said) or "all in another order"


def _numbers_elsewhere(source: PartitionedSource[Any], names: Iterable[str]) -> dict[str, int]:
    """The numbers of partitions in another process, where hashes of strings are others."""
    given = code_pickle.dumps((sys.path, source, list(names)))
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": os.pathsep.join(sys.path)}
    with calling(f"{type(source).__name__} in another process: number(name)"):
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM], input=given, env=environment, capture_output=True
        )
        if done.returncode:
            raise RuntimeError(done.stderr.decode(errors="replace"))
    last = done.stdout.decode().splitlines()[-1]
    return dict(zip(names, map(int, last.split()), strict=True))


_PROGRAM = """
import pickle, sys
_, source, names = pickle.load(sys.stdin.buffer)
print()
print(*(source.number(name) for name in names))
"""
_WAIT_SECONDS = 0.1
_LEAST_SECONDS = 0.05
"""A look for records that come once more where all have come."""
