"""The manifest of an epoch: which files of which tasks are one state of the job.

It is JSON that a person can read, and says its own checksum.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any

from engine.errors import CheckpointError
from engine.record.registry import RecordClass, Reference

FORMAT = 6
"""The format of manifests and snapshot files. Code that reads a format reads all earlier ones."""


@dataclass(frozen=True)
class SnapshotFile:
    """A file of a task's snapshot, as it has to be."""

    name: str
    bytes: int
    checksum: str


@dataclass(frozen=True)
class SnapshotEntry:
    """One task of an epoch: the place and the contents of its snapshot."""

    vertex: str
    index: int
    parallelism: int
    finished: bool
    shares: int
    files: tuple[SnapshotFile, ...]
    operators: tuple[str, ...] = ()
    """Identities of all that the task ran, in their order."""
    keys: Mapping[str, int] = field(default_factory=dict)
    """Identities of operators with state, and how many keys each has."""
    sources: tuple[str, ...] = ()
    """Identities of sources with positions."""
    sinks: tuple[str, ...] = ()
    """Identities of sinks with prepared output."""
    classes: tuple[tuple[Reference, RecordClass], ...] = ()
    """The classes of its references; from format 4 on."""

    @property
    def bytes(self) -> int:
        """Of all its files."""
        return sum(file.bytes for file in self.files)

    @property
    def written(self) -> int:
        """Bytes of its last file: the others were there before."""
        return self.files[-1].bytes

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> SnapshotEntry:
        """From `to_dict`, or what JSON makes of it."""
        return cls(
            **{
                **data,
                "files": tuple(SnapshotFile(**file) for file in data["files"]),
                "operators": tuple(data["operators"]),
                "sources": tuple(data["sources"]),
                "sinks": tuple(data["sinks"]),
                "classes": tuple(
                    (reference, RecordClass(name, tuple(fields)))
                    for reference, (name, fields) in data.get("classes", ())
                ),
            }
        )


@dataclass(frozen=True)
class Manifest:
    """An epoch that is whole: all tasks of the job at one barrier."""

    job: str
    epoch: int
    generation: int
    tasks: tuple[SnapshotEntry, ...]
    savepoint: str | None = None
    """The name under which it stays until a person deletes it."""
    started: float = 0.0
    """When its barriers began, in seconds since 1970."""
    ended: float = 0.0
    """When its last task had written."""
    meanings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The meaning of each operator's state, by its identity; from format 6 on."""

    @property
    def bytes(self) -> int:
        """Of all its files."""
        return sum(task.bytes for task in self.tasks)

    @property
    def written(self) -> int:
        """Bytes of the last file of each task."""
        return sum(task.written for task in self.tasks)

    @property
    def operators(self) -> dict[str, int]:
        """Identities of all operators of the job, with their parallelism."""
        return {name: task.parallelism for task in self.tasks for name in task.operators}

    def open_shares(self, source: str) -> frozenset[int]:
        """The numbers of the shares of this source that unfinished tasks read."""
        return frozenset(
            share
            for task in self.tasks
            if source in task.sources and not task.finished
            for share in range(task.index, task.shares, task.parallelism)
        )

    @property
    def classes(self) -> dict[Reference, RecordClass]:
        """The classes of references in the state of all tasks."""
        return {reference: each for task in self.tasks for reference, each in task.classes}

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Manifest:
        """From `to_dict`, or what JSON makes of it."""
        tasks = tuple(SnapshotEntry.of(task) for task in data["tasks"])
        return cls(**{**data, "tasks": tasks})


def seal(kind: str, content: Mapping[str, Any]) -> bytes:
    """JSON of plain data with its kind, format and checksum."""
    told = {"format": FORMAT, "kind": kind, **content}
    return json.dumps({"checksum": _checksum(told), **told}, indent=1).encode() + b"\n"


def unseal(name: str, data: bytes) -> dict[str, Any]:
    """The sealed value, of this `kind`.

    Raises CheckpointError that names the file for anything else.
    """
    try:
        told = json.loads(data)
        checksum = told.pop("checksum")
        version = told["format"]
        found = _checksum(told)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise damaged(name, "it is no whole JSON object with a checksum and a format") from None
    if not isinstance(version, int) or version > FORMAT:
        raise CheckpointError(
            f"{name} is of format {version!r}, expected at most {FORMAT}",
            "it was written by a newer version of Oka: run the job with that",
        )
    if found != checksum:
        raise damaged(name, f"its checksum is {found}, expected {checksum}")
    del told["format"]
    kept: dict[str, Any] = told
    return kept


def damaged(name: str, why: str) -> CheckpointError:
    """The error for a file that is not as it was written."""
    return CheckpointError(
        f"{name} is damaged: {why}",
        "`oka checkpoint list` shows other epochs: go on from one of these by its number",
    )


def _checksum(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=16).hexdigest()
