"""Requests to a running job through the folder of its checkpoints, from any machine.

    requests/ID   what somebody asks; removed when the job's driver has taken it up
    answers/ID    what became of it; removed by whoever asked

A request is taken up once: what a driver had taken up when it died is not answered.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from engine.checkpoint.manifest import seal, unseal
from engine.checkpoint.storage import Storage, is_missing
from engine.errors import CheckpointError, ConfigError, StorageError

Stop = Literal["no", "now", "drain"]


@dataclass(frozen=True)
class Request:
    """A request for a savepoint; with a `parallelism`, the job then goes on with that."""

    savepoint: str | None
    """Its name. With an `id`, None asks for no savepoint, only whether a driver runs."""
    stop: Stop = "no"
    """Whether the job ends after it: now, or after all read records are processed."""
    parallelism: int | None = None
    id: str = ""

    def __post_init__(self) -> None:
        """Raises ConfigError for a name that `resume` would not find, or an impossible setting."""
        if self.savepoint is not None or not self.id:
            check_name(self.savepoint)
        if self.stop not in get_args(Stop):
            raise ConfigError(
                f"a savepoint's stop is {self.stop!r}, expected 'no', 'now' or 'drain'",
                "'now' ends the job behind it, 'drain' when all that it took in is worked off",
            )
        count = self.parallelism
        if count is not None and (type(count) is not int or count < 1):
            raise ConfigError(
                f"the parallelism to go on with is {count!r}, expected a whole number, 1 or more",
                "it is how many tasks each operator gets that has no parallelism of its own",
            )


@dataclass(frozen=True)
class Answer:
    """The result of a request."""

    epoch: int | None = None
    """The epoch that is the savepoint."""
    error: str | None = None

    @property
    def made(self) -> int:
        """The epoch; raises CheckpointError where there is none."""
        if self.epoch is None:
            raise CheckpointError(f"the job made no savepoint: {self.error}")
        return self.epoch


def check_name(savepoint: object) -> None:
    """ConfigError unless it can be the name of a savepoint."""
    form = r"(?!\d+$|latest$)[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
    if not isinstance(savepoint, str) or not re.fullmatch(form, savepoint):
        raise ConfigError(
            f"the savepoint's name is {savepoint!r}, expected letters, digits, '.', '_' and '-'",
            "numbers are of epochs, and 'latest' is the last of them",
        )


def new_name() -> str:
    """A name of a savepoint, by the time."""
    now = time.time()  # in milliseconds: there may be several in a second
    return f"{time.strftime('s%Y-%m-%dT%H.%M.%S', time.gmtime(now))}.{int(now % 1 * 1000):03}"


class Requests:
    """Both ends of the box of requests."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def ask(
        self,
        request: Request,
        *,
        taken_within: float = 30.0,
        answered_within: float = 600.0,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> int:
        """Make a request and wait for its result: the epoch that is the savepoint.

        Raises CheckpointError if no savepoint is made, no driver takes up the request within so
        many seconds, or no answer comes within so many, from the start on; the request is then
        taken back.
        """
        number = request.id or secrets.token_hex(8)
        taken_within = min(taken_within, answered_within)
        name, answer = f"requests/{number}", f"answers/{number}"
        self._storage.create(name, seal("request", {**asdict(request), "id": number}))
        began = now()
        waiting = True
        try:
            while True:
                found = self._read(answer)
                if found is not None:
                    return Answer(found["epoch"], found["error"]).made
                waiting = waiting and name in self._storage.list("requests")
                waited = now() - began
                if waiting and waited > taken_within:
                    raise CheckpointError(
                        f"no running job took the request up in {taken_within:g} s, whose "
                        f"checkpoints are in {self._storage.url}",
                        "is it running? `oka checkpoint list` shows when its last epoch was",
                    )
                if waited > answered_within:
                    raise CheckpointError(
                        f"no answer in {answered_within:g} s by the job that took the request up",
                        "`oka checkpoint list` shows whether the savepoint is there",
                    )
                sleep(_PERIOD)
        finally:
            self._storage.delete([name, answer])

    def is_answered(self, within: float = 5.0) -> bool:
        """Whether a driver answers requests."""
        try:
            self.ask(Request(None, id=secrets.token_hex(8)), answered_within=within)
        except CheckpointError:
            return False
        return True

    def take(self) -> list[Request]:
        """Take up the requests; each needs an `answer`."""
        taken = []
        for name in self._storage.list("requests"):
            found = self._read(name)
            if found is not None:
                self._storage.delete([name])
                taken.append(Request(**found))
        return taken

    def answer(self, request: Request, answer: Answer) -> None:
        """Say what became of a request that was taken up."""
        told = {**asdict(answer), "at": time.time()}
        self._storage.put(f"answers/{request.id}", seal("answer", told))

    def refuse_all(self, why: str) -> None:
        """Refuse all requests not taken up, and remove answers that are no longer awaited."""
        answers = {name: self._read(name) for name in self._storage.list("answers")}
        last = time.time() - _KEPT_SECONDS
        self._storage.delete(name for name, each in answers.items() if each and each["at"] < last)
        for request in self.take():
            self.answer(request, Answer(error=why))

    def _read(self, name: str) -> dict[str, Any] | None:
        """The content of a file; None where it is not there, or not whole yet."""
        try:
            content = unseal(name, self._storage.get(name))
        except StorageError as error:
            if is_missing(error):
                return None
            raise
        except CheckpointError:
            return None
        del content["kind"]
        return content


_PERIOD = 0.25
_KEPT_SECONDS = 3600.0
