"""The targets of Oka's server in comparison with others, and the measured values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from benchmarks.schema.result import Row
from benchmarks.serve.systems import DEFAULT, ONE_TASK, TASKS, TWO_PROCESSES, UVICORN, System
from engine.units import rate, three_digits


class Floor(NamedTuple):
    """One value with its lower or upper bound."""

    name: str
    found: float
    bound: float
    unit: str
    at_least: bool = True

    @property
    def reached(self) -> bool:
        """Whether the value is within its bound."""
        return self.found >= self.bound if self.at_least else self.found <= self.bound

    def __str__(self) -> str:
        word = "at least" if self.at_least else "at most"
        verdict = "reached" if self.reached else "MISSED"
        written = rate if self.unit == _RATE else three_digits
        found, bound = written(self.found), written(self.bound)
        return f"{verdict}: {self.name}: {found} {self.unit}, expected {word} {bound}"


def floors(rows: Sequence[Row]) -> list[Floor]:
    """The targets whose rows were measured."""
    return list(_floors(_Rows(rows)))


def _floors(rows: _Rows) -> Iterable[Floor]:
    best = rows.best_of_serve()
    for system, least, times in ((ONE_TASK, 60_000, 5), (TWO_PROCESSES, 40_000, 3.5)):
        ours = rows.throughput(system, "noop")
        if ours:
            name = f"noop, {system.api}"
            yield Floor(name, ours, least, _RATE)
            if best:
                yield Floor(f"{name}, of Ray Serve's best mode", ours / best, times, "×")
            bare = rows.throughput(UVICORN, "noop")
            if bare and system is ONE_TASK:
                yield Floor(f"{name}, of a bare uvicorn", ours / bare, 1.2, "×")
    if single := rows.latency(ONE_TASK, "noop", "p50", clients=1):
        yield Floor("noop, one_task, 1 client, p50", single / 1000, 0.12, "ms", False)
    for handler in ("hops", "ensemble"):
        if ours := rows.throughput(TASKS, handler):
            yield Floor(handler, ours, 5000, _RATE)
            if default := rows.throughput(DEFAULT, handler):
                yield Floor(f"{handler}, of Ray Serve's default", ours / default, 50, "×")
    if half := rows.latency(TWO_PROCESSES, "noop", "p99", load=HALF):
        yield Floor("noop, two_processes, half load, p99", half / 1000, 2, "ms", False)
    capacity = rows.throughput(TWO_PROCESSES, "busy")
    row = rows.find(TWO_PROCESSES, "busy", OVERLOAD)
    if row and capacity:
        yield Floor(
            "4× overload: goodput, of the capacity", _of(row, "throughput") / capacity, 0.8, "×"
        )
        yield Floor("4× overload: p99 of refusals", _of(row, "refused_p99_ms"), 10, "ms", False)
        yield Floor(
            "4× overload: memory, of that before", _grown(row, "memory_bytes"), 1.1, "×", False
        )
    steady = rows.latency(TWO_PROCESSES, "model", "p99", load=HALF)
    swapped = rows.latency(TWO_PROCESSES, "swaps", "p99", load=HALF)
    if steady and swapped:
        yield Floor("models replaced: p99 of that of one model", swapped / steady, 2, "×", False)
    if row := rows.find(TWO_PROCESSES, "disconnects"):
        for name, bound in (("descriptors", 1.0), ("memory_bytes", 1.1)):
            told = f"clients that go: {name.removesuffix('_bytes')}, of those before"
            yield Floor(told, _grown(row, name), bound, "×", False)


class _Rows:
    """Rows with runs by their settings; besides 1, there is one number of clients."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = [row for row in rows if row["throughput"] is not None]

    def find(
        self, system: System, handler: str, load: str = "closed", clients: int | None = None
    ) -> Row | None:
        wanted = (system.system, system.api, handler, load)
        found = (
            row
            for row in self._rows
            if (row["system"], row["api"], row["handler"], row["load"]) == wanted
            if row["clients"] == clients or (clients is None and row["clients"] > 1)
        )
        return next(found, None)

    def throughput(self, system: System, handler: str) -> float:
        row = self.find(system, handler)
        return _of(row, "throughput") if row else 0.0

    def latency(
        self,
        system: System,
        handler: str,
        part: str,
        load: str = "closed",
        clients: int | None = None,
    ) -> float:
        """In µs."""
        row = self.find(system, handler, load, clients)
        return float(row["latency_us"][part]) if row and row["latency_us"] else 0.0

    def best_of_serve(self) -> float:
        found = [
            _of(row, "throughput")
            for row in self._rows
            if row["system"] == DEFAULT.system and row["clients"] > 1
            if (row["handler"], row["load"]) == ("noop", "closed")
        ]
        return max(found, default=0.0)


def _of(row: Row, name: str) -> float:
    return float(row[name]["median"])


def _grown(row: Row, name: str) -> float:
    return _of(row, f"{name}_after") / _of(row, f"{name}_before")


_RATE = "requests/s"
HALF = "0.5"
OVERLOAD = "4"
