"""The history of a running job: records come from any thread, and one thread writes them.

Invariant: nobody waits for the file, and nothing here fails the job. Where the file cannot be
written, the job is told so once, and goes on without a history.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.config import JobConfig
from engine.driver.events import Command, Event
from engine.errors import JobCancelled, JobStopped
from engine.graph.execution import ExecutionGraph
from engine.graph.logical import LogicalGraph
from engine.history.errors import told
from engine.history.events import Events
from engine.history.file import SCHEMA, HistoryWriter, read_lines
from engine.history.places import new_path
from engine.history.plan import planned
from engine.history.process import this_process
from engine.history.retention import Record, compacted, encoded
from engine.history.sample import Samples
from engine.history.secret import Secrets
from engine.report.provenance import machine, versions
from engine.report.result import JobResult
from engine.report.samples import Sample


class History:
    """What a job did, from its plan to its end. It watches the job as its progress line does.

    `warn` is given a line where the file cannot be written. With the setting "off" it does nothing.
    """

    period = 1.0

    def __init__(self, config: JobConfig, warn: Callable[[str], object]) -> None:
        self.path: Path | None = None
        """The file; None where there is none."""
        self._warn = warn
        self._config = config
        self._began = time.monotonic()
        self._since = time.time()
        self._secrets = Secrets(os.environ)
        self._events: Events | None = None
        self._samples: Samples | None = None
        self._log = _LogLines()
        self._work: queue.SimpleQueue[Callable[[], Iterable[Record]] | None] = queue.SimpleQueue()
        """Each gives records, in the thread that writes."""
        self._is_on = config.history != "off"
        self._thread = threading.Thread(target=self._run, name="oka-history", daemon=True)
        self._put(self._first)

    def planned(
        self,
        logical: LogicalGraph,
        execution: ExecutionGraph,
        ways: Callable[[], Mapping[int, str]],
    ) -> None:
        """The job runs by this plan from now on: at its start, and with another parallelism.

        The file is there soon after the first plan.
        """
        begins = self._seconds()

        def records() -> Iterator[Record]:
            counted = None if self._samples is None else self._samples.counted
            self._samples = Samples(execution, counted, begins)
            yield {"kind": "plan", **planned(logical, execution, ways())}

        self._events = Events(execution)
        self._put(records)
        if self._is_on and self._thread.ident is None:
            self._thread.start()

    def observe(self, events: Sequence[Event], commands: Sequence[Command]) -> None:
        """Take what the coordinator of the job was told, and what it said; in one thread."""
        if self._events is not None and self._is_on:
            found = list(self._events.records(events, commands, self._seconds()))
            if found:
                self._put(lambda: found)

    def take(self, sample: Sample) -> None:
        """Take a sample of the tasks."""
        t = self._seconds()

        def records() -> Iterable[Record]:
            if self._samples is None:
                return ()
            return self._samples.records(sample.tasks, t, is_last=sample.is_last)

        self._put(records)

    def hear(self, text: str) -> None:
        """Take what workers have written to their stderr, in any pieces."""
        self._put(lambda: self._log.records(text, self._seconds()))

    def note(self, event: str, **fields: Any) -> None:
        """Take an event that the coordinator does not know of."""
        self.keep("event", event=event, **fields)

    def keep(self, kind: str, **fields: Any) -> None:
        """Take a record."""
        self._put(lambda: [{"kind": kind, **fields}])

    def end(self, outcome: JobResult | BaseException) -> None:
        """The job has ended with this. Waits until it is written, unless the disk is very slow."""
        record: Record = {"kind": "end"}
        if isinstance(outcome, JobResult):
            record |= {"state": "finished", "result": _figures(outcome)}
        elif isinstance(outcome, JobStopped):
            record |= {"state": "stopped", "savepoint": outcome.savepoint}
        elif isinstance(outcome, JobCancelled):
            record |= {"state": "cancelled"}
        else:
            record |= {"state": "failed", "error": told(outcome)}
        self._put(lambda: [*self._log.rest(self._seconds()), record])
        self._work.put(None)
        if self._thread.ident is not None:
            self._thread.join(_PATIENCE_SECONDS)

    def close(self) -> None:
        """Nobody gives samples any more."""

    def _seconds(self) -> float:
        return round(time.monotonic() - self._began, 3)

    def _put(self, work: Callable[[], Iterable[Record]]) -> None:
        if self._is_on and self._work.qsize() < _MOST_WAITING:
            t = self._seconds()
            self._work.put(lambda: [{"t": t, **record} for record in work()])

    def _first(self) -> Iterator[Record]:
        yield {
            "kind": "job",
            "schema": SCHEMA,
            "name": self._config.name,
            "since": round(self._since, 3),
            "process": this_process(),
            "settings": dataclasses.asdict(self._config),
            "versions": versions(),
            "machine": machine(),
        }

    def _run(self) -> None:
        writer: HistoryWriter | None = None
        try:
            path = new_path(self._config.history, self._config.name)
            batch, is_over = self._gathered()
            writer = HistoryWriter(path, batch)
            self.path = path
            limit = max(MOST_BYTES, writer.size + GROWTH_BYTES)
            while not is_over:
                batch, is_over = self._gathered()
                writer.write(batch)
                if writer.size > limit:
                    writer = writer.rewrite(compacted(read_lines(path), COMPACTED_BYTES))
                    limit = max(MOST_BYTES, writer.size + GROWTH_BYTES)
            writer.close()
        except Exception as error:  # noqa: BLE001 - whatever it was, the job goes on
            self._is_on = False
            if isinstance(error, OSError):
                what = error.strerror or str(error)
            else:
                what = f"{type(error).__name__}: {error}"
            where = f" {error.filename}" if isinstance(error, OSError) and error.filename else ""
            self._warn(f"the history of the job{where} cannot be written: {what}; the job goes on")
            if writer is not None:
                with contextlib.suppress(OSError):
                    writer.close(whole=False)

    def _gathered(self) -> tuple[list[bytes], bool]:
        """The lines of what came in a short time, and whether it was the last."""
        found: list[bytes] = []
        work = self._work.get()
        until = time.monotonic() + _GATHERED_SECONDS
        while work is not None:
            for record in work():
                safe = record if record["kind"] in _OF_NUMBERS else self._secrets.without(record)
                found.append(encoded(safe))
            try:
                work = self._work.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                return found, False
        return found, True


class _LogLines:
    """Takes a log apart into lines, and drops those that are too many for a second."""

    def __init__(self) -> None:
        self._rest = ""
        self._second = 0
        self._count = self._dropped = 0

    def records(self, text: str, t: float) -> Iterator[Record]:
        """The lines that are whole by now."""
        *lines, self._rest = (self._rest + text).split("\n")
        self._rest = self._rest[-_LONGEST_LINE:]
        for line in lines:
            yield from self._line(line, t)

    def rest(self, t: float) -> Iterator[Record]:
        """What is left at the end."""
        yield from self.records("\n" if self._rest else "", t)
        if self._dropped:
            yield from self._told()

    def _line(self, line: str, t: float) -> Iterator[Record]:
        if int(t) != self._second:
            if self._dropped:
                yield from self._told()
            self._second, self._count = int(t), 0
        self._count += 1
        if self._count > _LINES_PER_SECOND:
            self._dropped += 1
        elif line.strip():
            yield {"kind": "log", "text": line[:_LONGEST_LINE]}

    def _told(self) -> Iterator[Record]:
        yield {"kind": "log", "text": f"… {self._dropped:,} lines of the log are left out"}
        self._dropped = 0


def _figures(result: JobResult) -> dict[str, Any]:
    """The figures of a result that its operators do not have."""
    statistics = result.statistics
    return {
        "records": statistics.records,
        "source_records": statistics.source_records,
        "throughput": round(statistics.throughput, 1),
        "seconds": round(result.seconds, 3),
        "cpu_seconds": round(statistics.cpu_seconds, 3),
        "latency_us": dataclasses.asdict(statistics.latency),
        "files": {name: str(files) for name, files in result.files.items()},
    }


MOST_BYTES = 1_900_000
"""From what size on a file is written anew."""
COMPACTED_BYTES = 900_000
"""What it may have then."""
GROWTH_BYTES = 200_000
_GATHERED_SECONDS = 0.25
_MOST_WAITING = 10_000
_PATIENCE_SECONDS = 5.0
_LINES_PER_SECOND = 200
_LONGEST_LINE = 1000
_OF_NUMBERS = ("sample", "tasks", "latencies", "done", "step")
"""Kinds of records without any text of the user's."""
