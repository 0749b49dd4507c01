"""A history as a trace that Perfetto and Chrome's `about:tracing` show.

Each vertex is a process, and each task a thread in it, with the steps that it takes. Checkpoints,
events and rates have tracks of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.history.errors import in_a_line
from engine.history.reading import JobHistory
from engine.history.retention import Record


def chrome_trace(history: JobHistory) -> dict[str, Any]:
    """The trace, in the format of Chrome's trace events."""
    events = [*_names(history), *_steps(history), *_checkpoints(history)]
    events += [*_moments(history), *_rates(history)]
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {"job": history.name, "since": history.since, "state": history.state},
    }


def _names(history: JobHistory) -> Iterator[Record]:
    yield _name("process_name", _JOB, 0, f"job {history.name}")
    yield _name("thread_name", _JOB, _EVENTS, "events")
    yield _name("thread_name", _JOB, _CHECKPOINTS, "checkpoints")
    for at, vertex in enumerate(_widest(history)["vertices"]):
        yield _name("process_name", _FIRST + at, 0, vertex["name"])
        yield {**_name("process_sort_index", _FIRST + at, 0, ""), "args": {"sort_index": at + 1}}
        for index in range(vertex["parallelism"]):
            yield _name("thread_name", _FIRST + at, index, f"{vertex['name']}[{index}]")


def _name(what: str, process: int, thread: int, name: str) -> Record:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def _widest(history: JobHistory) -> Record:
    """The plan with the most tasks of all that the job had."""
    plans = history["plan"] or [history.plan]
    return max(plans, key=lambda plan: sum(each["parallelism"] for each in plan["vertices"]))


def _steps(history: JobHistory) -> Iterator[Record]:
    """The steps of each task, as far as they are known."""
    plan = history.plan
    places: list[tuple[int, int]] = []
    open_: tuple[str, int, float] | None = None
    waiting: set[int] = set()
    of_interest = [each for kind in ("plan", "step", "done") for each in history[kind]]
    order = {"plan": 0, "done": 1, "step": 2}
    of_interest.sort(key=lambda each: (each["t"], order[each["kind"]]))
    last = history.seconds
    for record in of_interest:
        if record["kind"] == "plan":
            plan = record
            places = [
                (_FIRST + at, index)
                for at, vertex in enumerate(plan["vertices"])
                for index in range(vertex["parallelism"])
            ]
        elif record["kind"] == "step":
            if open_ is not None:
                yield from _spans(places, waiting, open_, record["t"])
            open_ = record["step"], record["attempt"], record["t"]
            waiting = set(range(len(places)))
        elif open_ is not None and (record["step"], record["attempt"]) == open_[:2]:
            ended = waiting.intersection(record["tasks"])
            waiting -= ended
            yield from _spans(places, ended, open_, record["t"])
    if open_ is not None:
        yield from _spans(places, waiting, open_, last)


def _spans(
    places: list[tuple[int, int]], tasks: set[int], step: tuple[str, int, float], end: float
) -> Iterator[Record]:
    name, attempt, begin = step
    for task in sorted(tasks):
        process, thread = places[task]
        yield _span(name, process, thread, begin, end, {"attempt": attempt})


def _span(
    name: str, process: int, thread: int, begin: float, end: float, told: dict[str, Any]
) -> Record:
    return {
        "ph": "X",
        "name": name,
        "pid": process,
        "tid": thread,
        "ts": round(begin * 1e6),
        "dur": max(1, round((end - begin) * 1e6)),
        "args": told,
    }


def _checkpoints(history: JobHistory) -> Iterator[Record]:
    for epoch, record in history.checkpoints.items():
        begin: float = record["began"] if "began" in record else record["t"]
        end: float = next(
            (record[each] for each in ("committed", "stored") if each in record), begin
        )
        told = {name: record[name] for name in _OF_CHECKPOINTS if name in record}
        name = f"checkpoint {epoch}" + (" failed" if "failed" in record else "")
        yield _span(name, _JOB, _CHECKPOINTS, begin, end, told)


def _moments(history: JobHistory) -> Iterator[Record]:
    for record in (*history["event"], *history["error"]):
        is_error = record["kind"] == "error"
        told = {name: each for name, each in record.items() if name not in ("kind", "t", "event")}
        yield {
            "ph": "i",
            "s": "g",
            "name": in_a_line(record) if is_error else str(record.get("event", "event")),
            "pid": _JOB,
            "tid": _EVENTS,
            "ts": round(record["t"] * 1e6),
            "args": told,
        }


def _rates(history: JobHistory) -> Iterator[Record]:
    """Records per second out of each operator, as counters."""
    names = {each["id"]: each["name"] for each in history.plan["operators"]}
    order = [names[each] for each in history.order]
    for sample in history["sample"]:
        column = sample.get("out", ())
        if len(column) != len(order) or not sample.get("seconds"):
            continue
        rates = {
            name: round(value / sample["seconds"])
            for name, value in zip(order, column, strict=True)
        }
        ts = round((sample["t"] - sample["seconds"]) * 1e6)
        yield {"ph": "C", "name": "records/s", "pid": _JOB, "ts": max(0, ts), "args": rates}


_JOB = 1
"""The process of the whole job, and its threads."""
_EVENTS, _CHECKPOINTS = 1, 2
_FIRST = 10
"""The process of the first vertex."""
_OF_CHECKPOINTS = ("bytes", "savepoint", "failed", "of", "aligned", "stored", "committed")
