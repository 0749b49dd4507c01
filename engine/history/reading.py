"""A history as it is read: of a running job, of one that has ended, or of one that was killed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.errors import ConfigError
from engine.history.errors import in_a_line
from engine.history.file import SCHEMA, HistoryReader, read_lines
from engine.history.places import is_running
from engine.history.retention import Record, decoded, is_of, joined


class JobHistory:
    """What is known of one job, by the kinds of records, in the order of time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.job: Record = {}
        self.end: Record | None = None
        self.checkpoints: dict[int, Record] = {}
        """By the numbers of their epochs."""
        self.seconds = 0.0
        """From the beginning to the last record."""
        self._kinds: dict[str, list[Record]] = defaultdict(list)
        self._totals: dict[int, dict[str, Any]] = {}
        """Of operators, over so many samples."""
        self._summed = 0

    @classmethod
    def read(cls, path: Path, without: Sequence[str] = ()) -> JobHistory:
        """The history in a file; raises ConfigError if it is none.

        `without` are kinds of records to leave out: most of a file are the `tasks` of samples.
        """
        found = cls(path)
        try:
            lines = read_lines(path)
            found.add(line for line in lines if not any(is_of(kind, line) for kind in without))
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
        if found.job.get("schema") != SCHEMA:
            raise ConfigError(
                f"{path} is no history of a job, expected a file of the schema {SCHEMA}",
                "oka jobs lists those of this user; the setting history says where a job has its",
            )
        return found

    def add(self, lines: Iterable[bytes]) -> None:
        """Take in lines; what is no record is left out."""
        for line in lines:
            if (record := decoded(line)) is not None:
                self.take(record)

    def take(self, record: Record) -> None:
        """Take in a record."""
        kind = record["kind"]
        self.seconds = max(self.seconds, record["t"])
        if kind == "job":
            self.job = record
        elif kind == "end":
            self.end = record
        elif kind == "checkpoint" and isinstance(epoch := record.get("epoch"), int):
            before = self.checkpoints.get(epoch)
            self.checkpoints[epoch] = record if before is None else joined(before, record)
        else:
            self._kinds[kind].append(record)

    def __getitem__(self, kind: str) -> list[Record]:
        """The records of a kind, such as `sample`, `event`, `error` and `log`."""
        return self._kinds.get(kind, [])

    @property
    def name(self) -> str:
        """The name of the job."""
        return str(self.job.get("name", "?"))

    @property
    def since(self) -> float:
        """When it began, in seconds since 1970."""
        since = self.job.get("since")
        return float(since) if isinstance(since, int | float) else 0.0

    @property
    def state(self) -> str:
        """`running`, `finished`, `failed`, `cancelled`, `stopped`, or `killed`: it has no end."""
        if self.end is not None:
            return str(self.end.get("state", "?"))
        return "running" if is_running(self.path, self.job) else "killed"

    @property
    def plan(self) -> Record:
        """The last plan."""
        plans = self["plan"]
        return plans[-1] if plans else {"operators": [], "vertices": [], "edges": []}

    @property
    def tasks(self) -> list[str]:
        """The names of the tasks, in the order of their numbers."""
        return list(task_names(self.plan))

    @property
    def order(self) -> list[int]:
        """The numbers of the operators, as columns of samples have them."""
        return [each for vertex in self.plan["vertices"] for each in vertex["operators"]]

    @property
    def error(self) -> Record | None:
        """The error that ended the job; of one that was killed, the last that it went on after."""
        if self.end is not None:
            found = self.end.get("error")
            return found if isinstance(found, dict) else None
        errors = self["error"]
        return errors[-1] if errors and self.state == "killed" else None

    @property
    def failure(self) -> str:
        """Why the job failed, in one line; empty if it did not."""
        if self.state == "killed":
            return f"its driver was killed, or ended without a word{self._last_step()}"
        return "" if self.error is None else in_a_line(self.error)

    @property
    def records(self) -> int:
        """The records that reached the sinks."""
        if self.end is not None and isinstance(result := self.end.get("result"), dict):
            return int(result.get("records", 0))
        operators = self.operators()
        vertices = self.plan["vertices"]
        targets = {edge["source"] for edge in self.plan["edges"]}
        ends = [vertex["operators"][-1] for at, vertex in enumerate(vertices) if at not in targets]
        return sum(operators.get(each, {}).get("out", 0) for each in ends)

    def operators(self) -> dict[int, dict[str, Any]]:
        """What each operator has counted in all, by its number in the plan."""
        order, samples = self.order, self["sample"]
        totals = self._totals
        for each in order:
            totals.setdefault(each, {"in": 0, "out": 0})
        for sample in samples[self._summed :]:
            for name in ("in", "out", "late", "errors", "failures"):
                column = sample.get(name, ())
                if len(column) == len(order):
                    for each, value in zip(order, column, strict=True):
                        totals[each][name] = totals[each].get(name, 0) + value
        self._summed = len(samples)
        return totals

    def _last_step(self) -> str:
        steps = self["step"]
        return f", in the step {steps[-1]['step']!r}" if steps else ""


class Follower:
    """Reads the history of a running job again and again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begin()

    def history(self) -> JobHistory:
        """The history as it is now; raises OSError where the file is gone."""
        self._found.add(self._reader.lines())
        if self._reader.is_replaced:
            self._reader.close()
            self._begin()
            self._found.add(self._reader.lines())
        return self._found

    def close(self) -> None:
        """Close the file; idempotent."""
        self._reader.close()

    def _begin(self) -> None:
        self._reader = HistoryReader(self._path)
        self._found = JobHistory(self._path)


@contextmanager
def whole(history: JobHistory) -> Iterator[None]:
    """Raise ConfigError where records lack what they have to have, as in a file that was forged."""
    try:
        yield
    except _OF_FORGED as error:
        raise ConfigError(
            f"{history.path} is damaged: {type(error).__name__}: {error}, expected what a job wrote"
        ) from error


def task_names(plan: Record) -> Iterator[str]:
    """The names of a plan's tasks, in the order of their numbers."""
    for vertex in plan["vertices"]:
        for index in range(vertex["parallelism"]):
            yield f"{vertex['name']}[{index}]"


_OF_FORGED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What reading a file raises that no job has written."""
