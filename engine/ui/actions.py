"""What a page may do with the job of its own process: what its handle can."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from engine.checkpoint.requests import new_name
from engine.deployment.stacks import Stacks
from engine.errors import ConfigError, EngineError, GraphError
from engine.web.guard import Refused


class RunningJob(Protocol):
    """What is asked of a job, as `engine.job.JobHandle` has it."""

    @property
    def history(self) -> Path | None:
        """The file that is shown."""

    @property
    def has_checkpoints(self) -> bool:
        """Whether there can be savepoints."""

    def savepoint(self, name: str, *, timeout: float | None = None) -> int:
        """Make a savepoint; the number of its epoch."""

    def rescale(self, parallelism: int, *, timeout: float | None = None) -> None:
        """Go on with another parallelism."""

    def flame(self, task: str, seconds: float = 5.0) -> Stacks:
        """Look where a task spends its time."""

    def stop(self) -> None:
        """End the sources."""

    def cancel(self) -> None:
        """End at once."""


class Actions:
    """The actions on one job. Each goes on once at a time."""

    def __init__(self, job: RunningJob) -> None:
        self._job = job
        self._busy = {each: threading.Lock() for each in _ACTIONS}

    @property
    def names(self) -> list[str]:
        """Those that the job can take, as long as it runs."""
        has_checkpoints = self._job.has_checkpoints
        return [each for each in _ACTIONS if has_checkpoints or each not in _BY_CHECKPOINTS]

    def act(self, action: str, given: Mapping[str, Any]) -> str:
        """Do it; what a person is told. Raises Refused."""
        if action not in self.names:
            raise Refused(
                404 if action not in _ACTIONS else 409,
                f"the job has no action {action[:50]!r}, expected one of {', '.join(self.names)}",
                "savepoint and rescale need --checkpoints FOLDER",
            )
        fields, do = _ACTIONS[action]
        for name, value in given.items():
            if name not in fields or type(value) not in fields[name]:
                told = ", ".join(f"{each}: {kinds[-1].__name__}" for each, kinds in fields.items())
                told = told or "nothing"
                raise Refused(400, f"{action} got {name[:50]!r}, expected {told}", "as JSON")
        busy = self._busy[action]
        if not busy.acquire(blocking=False):
            raise Refused(409, f"a {action} is under way", "wait for its end")
        try:
            return do(self._job, given)
        except (ConfigError, GraphError) as error:
            raise Refused(400, error.message, error.hint or "") from None
        except EngineError as error:
            raise Refused(409, error.message, error.hint or "") from None
        except TimeoutError:
            what = f"there is no end of the {action} after {_PATIENCE_SECONDS:g} s"
            raise Refused(408, what, "it goes on; its checkpoint shows when it is made") from None
        finally:
            busy.release()


def _savepoint(job: RunningJob, given: Mapping[str, Any]) -> str:
    name = given.get("name") or new_name()
    epoch = job.savepoint(name, timeout=_PATIENCE_SECONDS)
    return f"savepoint {name} is made, of epoch {epoch}; --resume {name} goes on from it"


def _rescale(job: RunningJob, given: Mapping[str, Any]) -> str:
    if "parallelism" not in given:
        raise Refused(400, "rescale got no parallelism, expected a whole number of tasks", "")
    job.rescale(given["parallelism"], timeout=_PATIENCE_SECONDS)
    return f"the job goes on with parallelism {given['parallelism']}"


def _stop(job: RunningJob, _: Mapping[str, Any]) -> str:
    job.stop()
    return "the sources end; the job finishes what they have emitted"


def _cancel(job: RunningJob, _: Mapping[str, Any]) -> str:
    job.cancel()
    return "the job is cancelled"


def _flame(job: RunningJob, given: Mapping[str, Any]) -> str:
    if "task" not in given:
        raise Refused(400, "flame got no task, expected the name of one, such as map[0]", "")
    found = job.flame(given["task"], given.get("seconds", 5.0))
    return f"{given['task']} was seen {found.samples:,} times in {found.seconds:g} s"


_Do: TypeAlias = Callable[[RunningJob, Mapping[str, Any]], str]
_ACTIONS: dict[str, tuple[dict[str, tuple[type, ...]], _Do]] = {
    "savepoint": ({"name": (str,)}, _savepoint),
    "stop": ({}, _stop),
    "rescale": ({"parallelism": (int,)}, _rescale),
    "cancel": ({}, _cancel),
    "flame": ({"task": (str,), "seconds": (int, float)}, _flame),
}
_BY_CHECKPOINTS = ("savepoint", "rescale")
_PATIENCE_SECONDS = 60.0
