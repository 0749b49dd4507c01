"""What a person sees of a history: lines and the rows of a table. Pure."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.history.places import SUFFIX
from engine.history.reading import JobHistory
from engine.history.retention import SHARES, Record, merged_samples
from engine.report import statistics
from engine.units import counted, duration, measure, rate

COLUMNS = (
    "operator",
    "tasks",
    "in",
    "out",
    "in/s",
    "out/s",
    "busy",
    "waiting",
    "blocked",
    "idle",
    "backlog",
    "watermark",
    "behind",
    "keys",
    "state",
)
"""Of a table of operators. Shares of time and what is behind them, but keys, are of the chain."""


NOT_LISTED = ("tasks", "latencies", "log", "checkpoint", "flame")
"""Kinds of records that a list of jobs does without."""


@dataclass(frozen=True)
class Row:
    """An operator as it is now."""

    cells: tuple[str, ...]
    """By the columns."""
    busy: float
    """The share of its chain's time, from 0 to 1."""
    blocked: float
    is_bottleneck: bool
    """Whether others wait for its chain."""


def listed(history: JobHistory) -> Record:
    """A job in a list of jobs."""
    return {
        "job": history.path.name.removesuffix(SUFFIX),
        "name": history.name,
        "state": history.state,
        "since": history.since,
        "seconds": history.seconds,
        "records": history.records,
        "failure": history.failure,
    }


def rows(history: JobHistory) -> list[Row]:
    """A row for each operator: all counts, and the rates and shares of the last seconds."""
    plan, totals = history.plan, history.operators()
    names = {each["id"]: each["name"] for each in plan["operators"]}
    sample, tasks = recent(history), _last(history, "tasks")
    slowest = bottleneck(history)
    found: list[Row] = []
    first = 0
    for at, vertex in enumerate(plan["vertices"]):
        members = slice(first, first + vertex["parallelism"])
        first += vertex["parallelism"]
        shares = [_at(sample, share, at) / 1000 for share in SHARES]
        backlog = sum(_column(tasks, "input_backlog_bytes")[members])
        lag = max(_column(tasks, "watermark_lag_ms")[members], default=0)
        behind = sum(_column(tasks, "lag_records")[members])
        state = sum(_column(tasks, "checkpointed_bytes")[members])
        for operator in vertex["operators"]:
            number, total = len(found), totals[operator]
            cells = (
                names[operator],
                str(vertex["parallelism"]),
                f"{total['in']:,}",
                f"{total['out']:,}",
                rate(_at(sample, "in", number) / (sample.get("seconds") or 1.0)),
                rate(_at(sample, "out", number) / (sample.get("seconds") or 1.0)),
                *(f"{share:.0%}" for share in shares),
                measure(backlog, "byte") if backlog else "",
                duration(lag * 1e3) if lag else "",
                f"{behind:,}" if behind else "",
                f"{keys:,.0f}" if (keys := _at(sample, "checkpointed_keys", number)) else "",
                measure(state, "byte") if state else "",
            )
            found.append(Row(cells, shares[0], shares[2], at == slowest))
    return found


def operators(found: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of a table of these rows: the columns in which there is something."""
    shown = [at for at in range(len(COLUMNS)) if any(row.cells[at] for row in found)]
    return [COLUMNS[at] for at in shown], [[row.cells[at] for at in shown] for row in found]


def bottleneck(history: JobHistory) -> int | None:
    """The vertex that holds up others, as results have it."""
    plan, sample = history.plan, recent(history)
    read_from = {edge["target"] for edge in plan["edges"]}
    vertices = range(len(plan["vertices"]))
    return statistics.bottleneck(
        [_at(sample, "busy", at) + _at(sample, "waiting", at) for at in vertices],
        [_at(sample, "blocked", at) / 1000 for at in vertices],
        [at not in read_from for at in vertices],
    )


def summary(history: JobHistory) -> list[str]:
    """Lines about the whole job."""
    began = f"job {history.name!r}: {history.state}, began {when(history.since)}"
    lines = [f"{began}, ran for {duration(history.seconds * 1e6)}, {history.records:,} records"]
    metrics = _last(history, "sample").get("metrics", {})
    samples = reversed(history["sample"])
    latency = next((each["latency"] for each in samples if "latency" in each), None)
    parts = []
    if latency is not None:
        _, p50, _, p99, *_ = latency
        parts.append(f"latency p50 {duration(p50)}, p99 {duration(p99)}")
    if restarts := metrics.get("restarts"):
        parts.append(counted(restarts, "restart"))
    if responses := metrics.get("responses"):
        lines.append(f"responses: {measure(responses, 'response')}")
    if memory := metrics.get("memory_bytes"):
        parts.append(f"largest worker {measure(memory, 'byte')}")
    slowest = bottleneck(history)
    if slowest is not None:
        name = history.plan["vertices"][slowest]["name"]
        share = max(_column(recent(history), "blocked")) / 1000
        lines.append(f"backpressure: {share:.0%} blocked by {name}")
    return [*lines, *([", ".join(parts)] if parts else []), *_checkpoints(history)]


def recent(history: JobHistory) -> Record:
    """The samples of the last seconds as one: a batch may take longer than a second."""
    samples = history["sample"]
    found: Record = {}
    for sample in reversed(samples[-_MOST_RECENT:]):
        if found and samples[-1]["t"] - sample["t"] > _RECENT_SECONDS:
            break
        found = (merged_samples(sample, found) or found) if found else sample
    return found


def news(history: JobHistory, most: int) -> list[str]:
    """The last events and errors, in a line each, and the time since the job began."""
    told = [(each["t"], _event(each)) for each in history["event"]]
    told += [(each["t"], f"error: {each.get('message', '')}") for each in history["error"]]
    told.sort(key=lambda each: each[0])
    return [f"{t:9.1f} s  {' '.join(text.split())}" for t, text in told[-most:]]


def end(history: JobHistory) -> list[str]:
    """Why the job failed, with the traceback; nothing if it did not."""
    parts = [history.failure] if history.failure else []
    if (error := history.error) is not None:
        parts += [str(error[part]).rstrip() for part in ("traceback", "log") if error.get(part)]
        if error.get("hint"):
            parts.append(f"hint: {error['hint']}")
    return parts


def when(seconds: float) -> str:
    """A time since 1970, as clocks here show it."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def shown(text: str) -> str:
    """The text without codes that control a terminal: a file may be somebody else's."""
    return "".join(each if each.isprintable() or each in "\n\t" else "?" for each in text)


def _event(record: Record) -> str:
    if record.get("event") == "warning":
        return str(record.get("text", ""))
    more = [f"{name} {each}" for name, each in record.items() if name not in _OF_ALL_EVENTS]
    return ", ".join([str(record.get("event", "")), *more])


def _checkpoints(history: JobHistory) -> list[str]:
    if not history.checkpoints:
        return []
    every = list(history.checkpoints.values())
    stored = [each for each in every if "stored" in each]
    line = "checkpoints: none is stored yet"
    if stored:
        last = stored[-1]
        number = sum(each.get("of", 1) for each in stored)
        took = duration((last["stored"] - last.get("began", last["t"])) * 1e6)
        size = measure(last.get("bytes", 0), "byte")
        line = f"checkpoints: {number} stored, the last ({last['epoch']}) in {took}, of {size}"
    if not every[-1].keys() & {"stored", "failed"}:
        under_way = duration(max(0.0, history.seconds - every[-1]["t"]) * 1e6)
        line += f"; {every[-1]['epoch']} is under way for {under_way}"
    return [line]


def _last(history: JobHistory, kind: str) -> Record:
    return history[kind][-1] if history[kind] else {}


def _column(record: Record, name: str) -> Sequence[Any]:
    found: Sequence[Any] = record.get(name, ())
    return found


def _at(record: Record, name: str, at: int) -> float:
    column = _column(record, name)
    return float(column[at]) if at < len(column) else 0.0


_RECENT_SECONDS = 4.0
_MOST_RECENT = 10
_OF_ALL_EVENTS = ("kind", "t", "event")
