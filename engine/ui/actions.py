"""What a page may do with the job of its own process: make a savepoint, stop, rescale, cancel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from engine.checkpoint.requests import new_name
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

    def stop(self) -> None:
        """End the sources."""

    def cancel(self) -> None:
        """End at once."""


class Actions:
    """The actions on one job. Those that take a while come one at a time."""

    def __init__(self, job: RunningJob) -> None:
        self._job = job
        self._busy = threading.Lock()

    @property
    def names(self) -> list[str]:
        """Those that the job can take, as long as it runs."""
        return [each for each in _ACTIONS if self._job.has_checkpoints or each in _AT_ONCE]

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
            if name not in fields or type(value) is not fields[name]:
                expected = ", ".join(f"{each}: {kind.__name__}" for each, kind in fields.items())
                told = expected or "nothing"
                raise Refused(400, f"{action} got {name[:50]!r}, expected {told}", "as JSON")
        if action in _AT_ONCE:
            return do(self._job, given)
        if not self._busy.acquire(blocking=False):
            raise Refused(409, "another action is under way", "wait for its end, or stop the job")
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
            self._busy.release()


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


_ACTIONS: dict[str, tuple[dict[str, type], Callable[[RunningJob, Mapping[str, Any]], str]]] = {
    "savepoint": ({"name": str}, _savepoint),
    "stop": ({}, _stop),
    "rescale": ({"parallelism": int}, _rescale),
    "cancel": ({}, _cancel),
}
_AT_ONCE = ("stop", "cancel")
_PATIENCE_SECONDS = 60.0
