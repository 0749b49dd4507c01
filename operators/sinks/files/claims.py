"""Claims of the job that writes to a place: small files beside the output, one for each task.

Two jobs that write files of the same names into one place would replace each other's. In a folder,
writers hold a lock: a job that meets another is refused, and files without a lock belong to nobody.
In S3 a job cannot know which jobs live, and a killed job must not block others. So a job that meets
another takes over the place: it marks the claims of the other, whose tasks check theirs before they
make anything final. The next driver of a job does the same, wherever its files are. Each job writes
its claims before it looks for others, so that of two that begin at the same moment at least one
sees the other. Both know from the contents of the claims which of them goes on.

A marked job finds there who marked it, and removes its claims. If it was killed, the next job
removes them.
"""

from __future__ import annotations

import json
import re
import time
from typing import Any
from uuid import uuid4

from engine.checkpoint.owner import Owner
from engine.errors import CheckpointError, StorageError
from operators.sinks.files.places import BEGUN, CLAIM, Hold, Place

PERIOD_SECONDS = 5.0
"""Seconds between two checks of a task that only writes."""


class Claim:
    """The part of one task. `take` comes before it writes, `check` before anything is final."""

    def __init__(
        self,
        place: Place,
        job: str,
        owner: Owner,
        files: tuple[int, str],
        generation: int,
        *,
        checkpoints: bool,
    ) -> None:
        """`job` identifies the job; `files` are those of an index, with a suffix."""
        self._place = place
        self._job, self._owner = job, owner
        self._index, self._suffix = files
        self._generation = generation
        self._has_checkpoints = checkpoints
        whose = f".part-{self._index:05}{self._suffix}.{job}.{generation}"
        self._name = f"{whose}-{uuid4().hex[:8]}{CLAIM}"
        self._hold: Hold | None = None
        self._marked: list[str] = []
        """Claims of other jobs, removed at this job's end once those jobs have read them."""
        self._next_look = 0.0

    def take(self) -> None:
        """Claim the place, and handle other claims. Raises an error that names another job."""
        self._hold = self._place.hold(self._name, json.dumps(self._owner.to_dict()))
        try:
            for name in self._place.names():
                found = _NAME.fullmatch(name)
                if found is None or found["suffix"] != self._suffix or name == self._name:
                    continue
                if found["begun"]:
                    if self._is_left(found):
                        self._place.drop([name])
                elif (text := self._place.read(name)) is not None:
                    self._meet(found, _told(text))
        except BaseException:
            self.release()
            raise
        self._next_look = time.monotonic() + PERIOD_SECONDS

    def check(self) -> None:
        """Raise an error if another job, which it names, has taken the place over."""
        self._next_look = time.monotonic() + PERIOD_SECONDS
        text = self._place.read(self._name)
        if text is None:
            raise self._place.gone()
        if (taken := _told(text).get("taken_by")) is not None:
            raise self._taken(Owner.of(taken))

    def check_now_and_then(self) -> None:
        """Call `check` if the last call is a while ago; a place that is silent is asked later."""
        if time.monotonic() >= self._next_look:
            try:
                self.check()
            except StorageError:
                self._next_look = time.monotonic() + _LATER_SECONDS

    def release(self) -> None:
        """End the claim; idempotent."""
        if self._hold is not None:
            gone = [name for name in self._marked if self._place.is_held(name) is not True]
            self._place.drop([self._name, *gone])
            self._hold.end()
            self._hold = None

    def _is_left(self, begun: re.Match[str]) -> bool:
        """Whether who began to write this claim was killed meanwhile."""
        whose = (begun["job"], int(begun["generation"]))
        if whose == (self._job, self._generation):  # a task beside this one may be about to lock it
            return int(begun["index"]) == self._index
        return self._place.is_held(begun[0]) is False

    def _meet(self, found: re.Match[str], told: dict[str, Any]) -> None:
        """Handle another claim: of an earlier task, of a dead job, or of a living job."""
        name, taken = found[0], told.get("taken_by")
        if told.get("taken_for") == self._job:  # another task has handled it
            return
        if found["job"] == self._job:
            if taken is not None:
                raise self._taken(Owner.of(taken))
            if int(found["index"]) == self._index:  # its worker was killed, or is out of reach
                self._place.drop([name])
            return
        other, is_held = Owner.of(told), self._place.is_held(name)
        generation = int(found["generation"])
        is_known = generation > 0 and self._generation not in (0, generation)  # the next job
        is_first = (self._owner.since, self._job) < (other.since, found["job"])
        if is_known:
            is_taken = generation < self._generation
        elif is_held:
            is_taken = is_first
        else:
            is_taken = not is_first or other.since > time.time()  # the other clock is ahead
        if is_held is False or taken is not None or (is_held is None and other.is_dead):
            self._place.drop([name])
        elif is_taken:
            mark = {"taken_by": self._owner.to_dict(), "taken_for": self._job}
            self._place.write(name, json.dumps({**told, **mark}))
            if is_known:  # the other job also loses its checkpoints
                self._marked.append(name)
        elif is_held and not is_known:
            raise self._error("is writing", other, f"give each job {_OWN}, or wait for the other")
        else:
            raise self._taken(other)

    def _taken(self, other: Owner) -> Exception:
        hint = f"the other goes on; give each job {_OWN}, and run this one again"
        return self._error("has begun to write", other, hint)

    def _error(self, what: str, other: Owner, hint: str) -> Exception:
        """The error that names another job; with checkpoints it allows no restart."""
        told = (
            f"another job {what} part-*{self._suffix} into {self._place.url!r}: {other}, expected "
            "none: they would replace each other's files"
        )
        if self._has_checkpoints:
            return CheckpointError(told, hint)
        return FileExistsError(f"{told}\n\nhint: {hint}")


def _told(text: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(text)
    return told


_LATER_SECONDS = 60.0
_OWN = "a folder or prefix of its own"
_NAME = re.compile(
    r"\.part-(?P<index>\d{5,})(?P<suffix>\.[a-z]+)\.(?P<job>[0-9a-f]*)\.(?P<generation>\d+)"
    rf"-[0-9a-f]{{8}}{re.escape(CLAIM)}(?P<begun>{re.escape(BEGUN)})?"
)
