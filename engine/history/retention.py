"""What a history keeps when its file becomes too large: of longer ago, less. Pure.

Samples of longer ago are merged: counts are summed up, shares are means, figures of a moment are
the largest. Of events, errors and lines of the log the last are kept, and it is told how many are
not.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

Record: TypeAlias = dict[str, Any]
"""A line of a history. All have `kind` and `t`, the seconds since the job began."""


def encoded(record: Mapping[str, Any]) -> bytes:
    """The record as a line."""
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"), default=str)
    return text.encode("utf-8", "backslashreplace")


def decoded(line: bytes) -> Record | None:
    """The record of a line; None where it is none."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
        return None
    return record if isinstance(record.get("t"), int | float) else None


def is_of(kind: str, line: bytes) -> bool:
    """Whether a line that a job wrote is of this kind, as far as its beginning tells."""
    return f'"kind":"{kind}"'.encode() in line[:_BEGINNING]


def compacted(lines: Iterable[bytes], most_bytes: int) -> list[bytes]:
    """The lines that are kept; compressed, they take no more than so many bytes."""
    kinds: dict[str, list[Record]] = defaultdict(list)
    for line in lines:
        if (record := decoded(line)) is not None:
            kinds[record["kind"]].append(record)
    factor = 1
    while True:
        kept = _kept(kinds, factor)
        if factor >= _LARGEST_FACTOR or _compressed(kept) <= most_bytes:
            return kept
        factor *= 2


def _compressed(lines: Sequence[bytes]) -> int:
    return len(zlib.compress(b"\n".join(lines), 6))


def _kept(kinds: Mapping[str, list[Record]], factor: int) -> list[bytes]:
    found: list[Record] = []
    dropped: Counter[str] = Counter()
    for record in kinds.get("dropped", ()):
        dropped.update(record.get("of", {}))
    for kind, records in kinds.items():
        if kind == "checkpoint":
            records = _of_epochs(records)
        if kind in _MERGED:
            found += _thinned(records, factor, _MERGED[kind])
        elif kind != "dropped":
            most = _MOST.get(kind, _MOST_OTHERS)
            most = most if kind in _WHOLE else max(1, most // factor)
            dropped[kind] += max(0, len(records) - most)
            found += records[-most:]
    if dropped := +dropped:
        found.append({"kind": "dropped", "t": 0.0, "of": dropped})
    found.sort(key=lambda record: (record["kind"] != "job", record["t"]))
    return [encoded(record) for record in found]


def _thinned(
    records: Sequence[Record], factor: int, merge: Callable[[Record, Record], Record | None]
) -> list[Record]:
    """One record for each step of time, where they can be merged."""
    newest = max((record["t"] for record in records), default=0.0)
    found: list[tuple[Any, Record]] = []
    for record in records:
        age = newest - record["t"]
        width = next(width for until, width in _WIDTHS if age < until)
        width *= factor if age >= _WIDTHS[0][0] or factor > _SPARES_NEWEST else 1
        step = (width, record["t"] // width)
        merged = merge(found[-1][1], record) if found and found[-1][0] == step else None
        if merged is None:
            found.append((step, record))
        else:
            found[-1] = step, merged
    return [record for _, record in found]


def merged_samples(first: Record, second: Record) -> Record | None:
    """One sample for the time of both; None where they are of different plans."""
    one, other = float(first.get("seconds", 0)), float(second.get("seconds", 0))
    total = (one + other) or 1.0
    record = {**second, "seconds": round(one + other, 3)}
    for name in {*first, *second}:
        before, after = first.get(name), second.get(name)
        if not (isinstance(before, list) or isinstance(after, list)) or name in _OF_THE_END:
            continue
        size = len(before if isinstance(before, list) else after or ())
        before = [0] * size if before is None else before
        after = [0] * size if after is None else after
        if len(before) != len(after):
            return None
        pairs = zip(before, after, strict=True)
        if name in SHARES:
            record[name] = [round((a * one + b * other) / total) for a, b in pairs]
        elif name in MOMENTARY or name in KEPT:
            record[name] = [max(pair) for pair in pairs]
        else:
            record[name] = [a + b for a, b in pairs]
    return record


def joined(first: Record, second: Record) -> Record:
    """Two records of one checkpoint, whose fields add up."""
    return {**first, **second, "t": first["t"]}


def _later(_: Record, second: Record) -> Record | None:
    return second


def _slower_checkpoint(first: Record, second: Record) -> Record | None:
    """The one that took longer, with the number of those that it stands for.

    Those with a name, and those that failed, stay as they are.
    """
    if any(each.keys() & {"savepoint", "failed"} for each in (first, second)):
        return None
    slower = max(first, second, key=_took)
    return {**slower, "t": first["t"], "of": first.get("of", 1) + second.get("of", 1)}


def _took(checkpoint: Record) -> float:
    began = float(checkpoint.get("began", 0.0))
    return float(checkpoint.get("stored", began)) - began


def _of_epochs(records: Sequence[Record]) -> list[Record]:
    """One record for each checkpoint."""
    found: dict[Any, Record] = {}
    for record in records:
        epoch = record.get("epoch")
        found[epoch] = joined(found[epoch], record) if epoch in found else record
    return list(found.values())


_MERGED: Mapping[str, Callable[[Record, Record], Record | None]] = {
    "sample": merged_samples,
    "tasks": merged_samples,
    "latencies": _later,
    "checkpoint": _slower_checkpoint,
}
SHARES = ("busy", "waiting", "blocked", "idle")
"""Columns of shares of time."""
MOMENTARY = (
    "backlog_bytes",
    "input_backlog_bytes",
    "watermark_lag_ms",
    "memory_bytes",
    "lag_records",
    "state_records",
    "checkpointed_bytes",
    "checkpoint_pause_ms",
    "checkpoint_alignment_ms",
    "model_version",
)
"""Columns of tasks of what is of the moment."""
KEPT = ("checkpointed_keys", "oldest_key_ms")
"""Columns of operators of the same kind: what they keep."""
_OF_THE_END = ("latency",)
_WIDTHS = ((300.0, 1.0), (3600.0, 10.0), (86_400.0, 60.0), (float("inf"), 600.0))
"""Up to what age, in seconds, what step of time has one sample."""
_SPARES_NEWEST = 16
"""Up to this factor, the samples of the last minutes stay as they are."""
_LARGEST_FACTOR = 1 << 12
_MOST = {
    "job": 1,
    "end": 1,
    "plan": 20,
    "error": 60,
    "event": 1000,
    "log": 1000,
    "step": 400,
    "done": 600,
    "flame": 5,
}
_MOST_OTHERS = 100
_WHOLE = ("job", "end")
"""Kinds that a history always has."""
_BEGINNING = 60
"""Bytes of a line, in which its kind is."""
