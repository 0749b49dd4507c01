"""The names of a sink's files in a place: final ones, and those of files that are not final yet.

    part-00002.txt                            of task 2, in a job without checkpoints
    part-00002-00000007-c0001.csv.gz          the second file of task 2 in epoch 7
    day=2026-11-25/part-00002-00000007.csv    in a sub-folder
    .part-00002-c0001.csv.<job>.1.tmp         a file that is being written
    .part-00002-00000007-c0001.csv.1.prepared what is final once its epoch is

Files that are not final are never in a sub-folder. `.csv` is the kind of the file: sinks of one
kind do not share a folder, compressed or not. The last numbers are the driver's generation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Names:
    """The names of the files of one task; `index` is the task's, `job` identifies the job."""

    index: int
    kind: str
    extension: str
    job: str
    generation: int

    def final(self, folder: str, epoch: int | None, number: int) -> str:
        """The name of a file, which counts from 0 within an epoch."""
        of_epoch = "" if epoch is None else f"-{epoch:08}"
        name = f"part-{self.index:05}{of_epoch}{_counted(number)}{self.extension}"
        return f"{folder}/{name}" if folder else name

    def temporary(self, number: int) -> str:
        """The name while the file is written; the driver removes what killed tasks leave."""
        whose = f"{self.job}.{self.generation}"
        return f".part-{self.index:05}{_counted(number)}{self.kind}.{whose}.tmp"


def prepared_name(final: str, generation: int | None) -> str:
    """The name of the prepared file that becomes this one; files of epoch have such names."""
    name = final.rpartition("/")[2]
    return f".{name}{'' if generation is None else f'.{generation}'}.prepared"


@dataclass(frozen=True)
class Part:
    """What the name of a file says: the index of its task, its kind, and its epoch, if it has one.

    `generation` is 0 for names that have none.
    """

    index: int
    kind: str
    epoch: int | None
    generation: int


def final_part(name: str) -> Part | None:
    """What the name of a final file says; None for other files.

    >>> final_part("day=2026-11-25/part-00002-00000007-c0001.csv.gz")
    Part(index=2, kind='.csv', epoch=7, generation=0)
    """
    found = _FINAL.fullmatch(name.rpartition("/")[2])
    return found and _part(found)


def left_part(name: str) -> Part | None:
    """What the name says of a file that is not final; None for others, claims among them."""
    found = _LEFT.fullmatch(name)
    return found and _part(found)


def is_final(name: str) -> bool:
    """Whether it is the name of a file of an epoch, in the place itself or its sub-folders."""
    return _OF_EPOCH.fullmatch(name) is not None


def _counted(number: int) -> str:
    return f"-c{number:04}" if number else ""


def _part(found: re.Match[str]) -> Part:
    told = found.groupdict()
    epoch = told["epoch"]
    return Part(
        int(told["index"]),
        told["kind"],
        None if epoch is None else int(epoch),
        int(told.get("generation") or 0),
    )


_COMMON = (
    r"part-(?P<index>\d{5,})(?:-(?P<epoch>\d{8,}))?(?:-c\d{4,})?(?P<kind>\.[a-z]+)(?:\.(?:gz|zst))?"
)
_FINAL = re.compile(_COMMON)
_LEFT = re.compile(rf"\.{_COMMON}(?:\.[0-9a-f]{{32}})?(?:\.(?P<generation>\d+))?\.(?:prepared|tmp)")
_OF_EPOCH = re.compile(r"(?:[^/\0]+=[^/\0]*/)*part-\d{5,}-\d{8,}[^/\0]*")
