"""A conformance test of sinks: each record becomes final once, whichever process dies and when.

It calls writers as the tasks of a job and its driver do, step by step and without a job, and looks
after each step at what is final.
"""

from __future__ import annotations

import gc
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from engine.columns import columns_of
from engine.graph.context import TaskContext
from engine.graph.sink import SinkOperator, SinkWriter
from engine.testing.check_failed import CheckFailed, calling, rows_of, sent, shown, stored


def check_sink(
    make: Callable[[int], SinkOperator[Any]],
    *,
    read: Callable[[int], Iterable[Any]],
    record: Callable[[int], Any] = "record {}".format,
    columns: bool = False,
    left: Callable[[int], Iterable[Any]] | None = None,
) -> None:
    """Check an exactly-once sink; CheckFailed names the first promise that it does not keep.

    Each of some thirty jobs writes to a place of its own, such as a table or a folder, by its
    number: `make(place)` makes the sink, and `read(place)` gives the records that are final there,
    none as long as there is nothing. `record(n)` makes the record of a number; with `columns`,
    these are dicts, which are written as `pyarrow.RecordBatch`. `left(place)` gives what lies there
    and is not final: at the end of a job, that has to be nothing.

    A killed process is a writer that is dropped without `abort`.
    """
    check = _Check(make, read, record, columns, left)
    for scenario in (_epochs, _again, _kills, _rescales, _aborts, _without_checkpoints):
        scenario(check)


@dataclass
class _Stored:
    """A stored epoch: prepared output that was not committed then, by the index of the task."""

    epoch: int = 0
    prepared: dict[int, list[tuple[int, Any]]] = field(default_factory=dict)


class _Check:
    def __init__(
        self,
        make: Callable[[int], SinkOperator[Any]],
        read: Callable[[int], Iterable[Any]],
        record: Callable[[int], Any],
        columns: bool,
        left: Callable[[int], Iterable[Any]] | None,
    ) -> None:
        self._make, self._read, self._record, self._left = make, read, record, left
        self._columns = columns
        self._places = 0

    def job(self) -> _Job:
        """A job with a place of its own."""
        self._places += 1
        return _Job(self, self._places)

    def sink(self, place: int) -> SinkOperator[Any]:
        """The sink of a place, as tasks get it."""
        made = self._make(place)
        with calling(f"{type(made).__name__}.validate()"):
            made.validate()
        return sent(made)

    def batch(self, numbers: Sequence[int]) -> Any:
        """A batch of these records."""
        records = [self._record(number) for number in numbers]
        return columns_of(records) if self._columns else records

    def expect(self, job: _Job, numbers: Iterable[int], moment: str, hint: str) -> None:
        """Exactly the records of these numbers are final."""
        with calling(f"read({job.place}), {moment},"):
            found = Counter(rows_of(list(self._read(job.place))))
        expected = Counter(rows_of([self._record(number) for number in numbers]))
        if found == expected:
            return
        said = []
        if double := [row for row in found if found[row] > expected[row] > 0]:
            said.append(f"{shown(double)} {max(found[row] for row in double)} times")
        if early := [row for row in found if not expected[row]]:
            said.append(f"{shown(early)}, which must not be final")
        if lost := list((expected - found).elements()):
            said.append(f"not {shown(lost)}")
        what = "; ".join(said)
        raise CheckFailed(f"{job.kind}: {moment}, final is {what}", hint)

    def ended(self, job: _Job, moment: str) -> None:
        """Nothing is left behind."""
        if self._left is not None and (rest := list(self._left(job.place))):
            raise CheckFailed(
                f"{job.kind}: {moment}, {rest!r:.200} is left, expected nothing",
                "abort removes what is not final; restore, what an earlier writer left",
            )


class _Job:
    """One job and its tasks, in the hands of a driver that may kill them."""

    def __init__(self, check: _Check, place: int) -> None:
        self.check, self.place = check, place
        self.stored = _Stored()
        self.written: list[int] = []
        self.barrier = 0
        """How many of the written records are in the stored epoch."""
        self._generation = 0
        self._sink = check.sink(place)
        self.kind = type(self._sink).__name__
        self._writers: list[SinkWriter] = []
        self._prepared: dict[int, list[tuple[int, Any]]] = {}
        self._results: list[Any] = []

    def start(self, parallelism: int = 1, *, checkpoints: bool = True) -> _Job:
        """Open writers, which go on from the stored epoch."""
        self._generation += 1
        self._writers, self._prepared = [], {index: [] for index in range(parallelism)}
        del self.written[self.barrier :]
        if self._generation > 1:
            self._sink = self.check.sink(self.place)
        for index in range(parallelism):
            context = TaskContext(
                f"check[{index}]",
                index,
                parallelism,
                10,
                f"check-{self.place}",
                identity="check",
                checkpoints=checkpoints,
                generation=self._generation,
            )
            with calling(f"{self.kind}.open"):
                writer = self._sink.open(context)
            self._writers.append(writer)
            if checkpoints:
                ours = [
                    each
                    for of, prepared in sorted(self.stored.prepared.items())
                    if of % parallelism == index
                    for each in prepared
                ]
                with calling(f"{self.kind}: restore({self.stored.epoch}, {ours!r:.100})"):
                    writer.restore(self.stored.epoch, sorted(ours, key=lambda each: each[0]))
        return self

    def write(self, numbers: Sequence[int]) -> None:
        """Write records, some to each task."""
        self.written += numbers
        for index, writer in enumerate(self._writers):
            if own := numbers[index :: len(self._writers)]:
                with calling(f"{self.kind}: write of {len(own)} records"):
                    writer.write(self.check.batch(own))

    def prepare(self, epoch: int) -> None:
        """Have the tasks prepare, as at a barrier."""
        for index, writer in enumerate(self._writers):
            with calling(f"{self.kind}: prepare({epoch})"):
                made = writer.prepare(epoch)
            back = stored(f"{self.kind}: the result of prepare({epoch})", made)
            self._prepared[index].append((epoch, back))

    def store(self, epoch: int) -> None:
        """The checkpoint is stored: whoever goes on does so from here."""
        self.stored = _Stored(epoch, {of: [*each] for of, each in self._prepared.items()})
        self.barrier = len(self.written)

    def commit(self, epoch: int, tasks: slice = slice(None), *, keeps: bool = False) -> None:
        """Have tasks commit up to an epoch, in another thread; `keeps` if that may come again."""
        for index, writer in list(enumerate(self._writers))[tasks]:
            for each, made in [*self._prepared[index]]:
                if each <= epoch:
                    with calling(f"{self.kind}: commit({each}, {made!r:.100}), in another thread,"):
                        self._results.append(_elsewhere(writer.commit, each, made))
                    if not keeps:
                        self._prepared[index].remove((each, made))

    def end(self, epoch: int) -> None:
        """The last epoch, and the end of the job."""
        self.prepare(epoch)
        self.store(epoch)
        self.commit(epoch)
        for writer in self._writers:
            with calling(f"{self.kind}: close()"):
                writer.close()
        with calling(f"{self.kind}: commit of the sink, on the driver,"):
            self._sink.commit(epoch, self._results[-len(self._writers) :])

    def abort(self) -> None:
        """The job failed."""
        for writer in self._writers:
            with calling(f"{self.kind}: abort()"):
                writer.abort()
        with calling(f"{self.kind}: abort() of the sink, on the driver,"):
            self._sink.abort()

    def kill(self) -> None:
        """Nothing of the tasks is left but what they have written down."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # the kernel would close them
            self._writers, self._prepared = [], {}
            gc.collect()


def _epochs(check: _Check) -> None:
    """One epoch after the other: each is final with its commit, not before and not beyond."""
    job = check.job().start(2)
    job.write(range(6))
    early = "output becomes final in commit, not before: the checkpoint may never be stored"
    check.expect(job, [], "behind write, in front of prepare(1)", early)
    job.prepare(1)
    check.expect(job, [], "behind prepare(1), in front of commit(1)", early)
    job.write(range(6, 10))
    job.store(1)
    job.commit(1)
    check.expect(
        job,
        range(6),
        "behind commit(1), with further records written since prepare(1)",
        "commit makes final what it is given, and that is what was written before prepare",
    )
    job.prepare(2)
    job.write(range(10, 15))
    job.prepare(3)
    job.store(3)
    job.commit(3)
    check.expect(
        job,
        range(15),
        "behind commit(2) and commit(3), which came together",
        "an epoch that could not be stored is committed with a later one: keep each of them",
    )
    job.end(4)
    check.expect(job, range(15), "behind an epoch without records", "prepare may have nothing")
    check.ended(job, "at the end of the job")


def _again(check: _Check) -> None:
    """A commit that is repeated."""
    job = check.job().start()
    job.write(range(5))
    job.prepare(1)
    job.store(1)
    job.commit(1, keeps=True)
    hint = "commit may come again: note the epoch and its task together with the records"
    job.commit(1, keeps=True)
    check.expect(job, range(5), "behind a second commit(1)", hint)
    for turn in ("a new writer", "one more new writer"):
        job.kill()
        job.start()
        check.expect(job, range(5), f"behind restore(1) by {turn}, of a committed epoch", hint)
    job.write(range(5, 8))
    job.end(3)
    check.expect(job, range(8), "at the end of the job", hint)
    check.ended(job, "at the end of the job")


def _kills(check: _Check) -> None:
    """A kill behind each step; the job goes on from the last stored epoch, to its end."""
    count = len(list(_steps(check.job().start(2))))
    for at in range(1, count + 1):
        job = check.job().start(2)
        moment = list(islice(_steps(job), at))[-1]
        job.kill()
        job.start(2)
        check.expect(
            job,
            range(job.barrier),
            f"behind a kill after {moment}, and restore({job.stored.epoch})",
            "restore commits what it is given, which is stored, and drops all else",
        )
        job.write(range(job.barrier, 12))
        job.end(job.stored.epoch + 2)
        check.expect(
            job,
            range(12),
            f"at the end of a job that was killed after {moment}",
            "what was prepared for an epoch that was not stored is written again: drop it",
        )
        check.ended(job, "at the end of the job")


def _steps(job: _Job) -> Iterator[str]:
    """The steps of a job of two epochs."""
    for epoch in (1, 2):
        job.write(range(6 * epoch - 6, 6 * epoch - 3))
        yield f"a write for epoch {epoch}"
        job.write(range(6 * epoch - 3, 6 * epoch))
        yield f"another write for epoch {epoch}"
        job.prepare(epoch)
        yield f"prepare({epoch})"
        job.store(epoch)
        yield f"epoch {epoch} was stored, in front of its commit"
        job.commit(epoch, slice(1))
        yield f"commit({epoch}) of the first task"
        job.commit(epoch, slice(1, None))
        yield f"commit({epoch})"


def _rescales(check: _Check) -> None:
    """Other numbers of tasks commit what was prepared."""
    for before, behind, is_committed in ((2, 1, False), (1, 2, False), (3, 2, True), (2, 5, False)):
        job = check.job().start(before)
        job.write(range(7))
        job.prepare(1)
        job.write(range(7, 12))
        job.prepare(2)
        job.store(2)
        if is_committed:
            job.commit(2, keeps=True)
            job.store(2)  # nobody has noted the commit
        job.kill()
        job.start(behind)
        hint = "output belongs to the task that prepared it: note that in what prepare gives"
        moment = f"behind restore(2) by {behind} tasks, after {before}"
        check.expect(job, range(12), moment, hint)
        job.write(range(12, 20))
        job.prepare(4)
        job.store(4)
        job.kill()
        job.start(before)
        check.expect(job, range(20), f"{moment}, and restore(4) by {before} again", hint)
        job.end(6)
        check.expect(job, range(20), f"{moment}, at the end of the job", hint)


def _aborts(check: _Check) -> None:
    """A job with checkpoints that fails: what is stored stays, all else goes."""
    hint = "abort drops what is not prepared; what is prepared may be stored, and stays"
    job = check.job().start(2)
    job.write(range(4))
    job.abort()
    check.expect(job, [], "behind abort", hint)
    check.ended(job, "behind abort without an epoch")
    job = check.job().start(2)
    job.write(range(6))
    job.prepare(1)
    job.store(1)
    job.write(range(6, 9))
    job.abort()
    check.expect(job, [], "behind abort, in front of commit(1)", hint)
    job.start(2)
    check.expect(job, range(6), "behind abort and restore(1)", hint)
    job.end(3)
    check.expect(job, range(6), "at the end of the job", hint)
    check.ended(job, "at the end of the job")


def _without_checkpoints(check: _Check) -> None:
    """A job without checkpoints has one epoch."""
    hint = "without checkpoints nothing is final before the one commit"
    for prepares in (False, True):
        job = check.job().start(2, checkpoints=False)
        job.write(range(5))
        if prepares:
            job.prepare(1)
        job.abort()
        check.expect(job, [], "behind abort of a job without checkpoints", hint)
        check.ended(job, "behind abort of a job without checkpoints")
    job = check.job().start(2, checkpoints=False)
    job.write(range(5))
    job.write(range(5, 9))
    check.expect(job, [], "in a job without checkpoints, in front of commit", hint)
    job.end(1)
    check.expect(job, range(9), "at the end of a job without checkpoints", hint)
    check.ended(job, "at the end of the job")


def _elsewhere(call: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a call in another thread."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(call, *arguments).result()
