"""The state of a join whose function runs in Rust: records are encoded all the way."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from engine.expression.attempts import Attempts
from engine.expression.lift import Lifted
from engine.expression.tree import of_pair
from engine.graph.batch_operator import NativeFigures
from engine.graph.context import TaskContext
from engine.network import Batch, KeptRecords, Program
from engine.network import Join as Matcher
from engine.task.compared import check_alike
from operators.event_time.in_rust import TimesForRust, path_to_time
from operators.joins.joining import Joining, JoinInput, Results
from operators.joins.records import JoinRecords
from operators.key_numbers import are_too_many

Read: TypeAlias = Callable[[Batch], "tuple[bytes, bytes] | str"]


class JoinEncoded(JoinRecords):
    """As `JoinRecords`, but records are never objects, and partners come in batches of pairs."""

    def __init__(
        self,
        name: str,
        joining: Joining,
        matcher: Matcher,
        context: TaskContext,
        results: Results,
        *,
        keeps_joined: bool,
    ) -> None:
        super().__init__(name, joining, matcher, context, results, keeps_joined=keeps_joined)
        self._most = context.batch_size
        self._readers = [_Reader(of, context) for of in self._inputs]
        self._kept = KeptRecords(*(reader.places for reader in self._readers))
        self._keys = _Keys(self._kept, context.pickle)

    def add(self, side: int, batch: Any) -> Any:
        """Take an encoded batch; its pairs with records that came before, in one batch.

        Or why that cannot be done here, before anything has happened.
        """
        try:
            records = Batch.of_rows(batch.decode()) if batch.has_columns else batch
        except Exception as error:  # noqa: BLE001  # as it is told where dicts are made
            return str(error).partition("\n")[0]
        read = self._readers[side].read(records, lambda each: self._kept.read(side, each))
        if isinstance(read, str):
            return read
        keys, times = (memoryview(each).cast("q") for each in read)
        of = self._inputs[side]
        if of.time is None:
            times = memoryview(array("q", range(self._came, self._came + len(keys))))
            self._came += len(keys)
        late, rows, *step = self._matcher.add(side, keys, times)
        if late:
            came = records.to_list()
            places = memoryview(late).cast("I")
            self.late += [came[place][1] if of.paired else came[place] for place in places]
        self._kept.keep(side, records, rows)
        lefts, rights, _, *gone = step
        pairs: Any = self._kept.pairs(lefts, rights) if lefts else []
        self._remove(gone)
        return pairs

    def _made(self, lefts: bytes, rights: bytes, kinds: bytes, *gone: bytes) -> Iterator[Batch]:
        """Batches of pairs, each of which is made when it is asked for; then rows are gone."""
        if any(self._results.aside) and not kinds:
            lefts, rights = self._without_aside(lefts, rights)
        most = 4 * self._most
        for first in range(0, len(lefts), most):
            yield self._kept.pairs(lefts[first : first + most], rights[first : first + most])
        self._remove(gone)

    def _remove(self, gone: Iterable[bytes]) -> None:
        for side, rows in enumerate(gone):
            if rows:
                self._kept.remove(side, rows)

    def _without_aside(self, lefts: bytes, rights: bytes) -> tuple[bytes, bytes]:
        """The pairs that come out; records without a partner also go to side outputs."""
        kept = array("I"), array("I")
        for pair in zip(memoryview(lefts).cast("I"), memoryview(rights).cast("I"), strict=True):
            if not all(pair):
                side = 0 if pair[0] else 1
                if self._results.aside[side]:
                    self.alone[side].extend(
                        self._records_of(side, array("I", [pair[side]]).tobytes())
                    )
                if not self._outer[side]:
                    continue
            for numbers, number in zip(kept, pair, strict=True):
                numbers.append(number)
        return kept[0].tobytes(), kept[1].tobytes()

    def _records_of(self, side: int, rows: bytes) -> list[Any]:
        return self._kept.take(side, rows)

    def _keep(self, side: int, numbers: bytes, records: list[Any]) -> None:
        self._kept.keep(side, Batch.from_list(records, self._pickle), numbers, alone=True)


class _Keys:
    """As `KeyNumbers`, of keys that Rust numbers."""

    def __init__(self, kept: KeptRecords, pickle: bool) -> None:
        self._kept = kept
        self._pickle = pickle

    @property
    def of_numbers(self) -> dict[int, Any]:
        return self._kept.keys()

    def of_key(self, key: Any) -> int:
        return self._kept.number(Batch.from_list([key], self._pickle))

    def forget_others(self, rows: int, in_use: Callable[[], list[int]]) -> None:
        if are_too_many(self._kept.key_count, rows):
            self._kept.forget_other_keys(set(in_use()))


class _Reader:
    """Keys and times of one input."""

    def __init__(self, of: JoinInput, context: TaskContext) -> None:
        self._times, path = None, None
        if of.time is not None:
            self._times = TimesForRust(of.time_of_records, context, "fail")
            path = path_to_time(of.time_of_records)
        self.places = of.key, of.paired, path, self._times
        """Where they are, for `KeptRecords`."""

    def read(self, batch: Batch, read: Read) -> tuple[bytes, bytes] | str:
        """What `read` gives for a batch, with times as their function finds them."""
        self._read = read
        if self._times is None:
            self.add(batch)
        else:
            self._times.add(self, batch)
        return self._found

    def add(self, batch: Batch) -> None:
        """For `TimesForRust`."""
        self._found = self._read(batch)


class PairFunction:
    """A join's function over encoded pairs: in Rust, or itself where that gives up."""

    def __init__(self, name: str, joining: Joining, lifted: Lifted, context: TaskContext) -> None:
        self.native = NativeFigures()
        """The records that came encoded, and the batches of pairs that fell back."""
        self.has_given_up = False
        """Whether it gives up so often that the function itself gets all from now on."""
        self._name = name
        self._joining = joining
        self._lifted = lifted
        self._failing = context.failing
        self._checks = context.native == "check"
        self._attempts = Attempts()
        self._program = Program([("map", of_pair(lifted.expression).to_data())])

    def __call__(self, pairs: Batch) -> Any:
        """The results of pairs."""
        if not len(pairs):
            return []
        if self.has_given_up or not self._lifted.holds():
            return self._called(pairs)
        out = self._program.run(pairs)
        self._attempts.note(gave_up=isinstance(out, str))
        if isinstance(out, str):
            self.native.fell_back(out)
            self.has_given_up = not self._attempts.is_due()
            return self._called(pairs)
        if self._checks:
            check_alike(out, self._called(pairs), pairs, self._name)
        return out

    def _called(self, pairs: Batch) -> list[Any]:
        return self._joining.made(pairs.to_list(), self._failing)
