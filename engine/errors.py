"""Every exception that Oka raises, under one root, and the parts that a user sees.

A message names the value and what was expected; a `hint`, where there is one, says what to do.
Frames of the engine are left out of what is raised and told, unless OKA_DEBUG=1 is set.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class EngineError(Exception):
    """Root of all errors of the engine.

    `message` is the error alone; `str(error)` adds a blank line and `hint: …` where there is one.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message}\n\nhint: {hint}")
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        """The fields as they are: what `__init__` takes differs from class to class."""
        return _restored, (type(self), self.args, self.__dict__)


class ConfigError(EngineError):
    """A setting has a value that cannot work; raised before any worker starts."""


class GraphError(EngineError):
    """The pipeline is put together wrongly; raised while the graph is built or planned."""


class PlacementError(EngineError):
    """The tasks do not fit the nodes, or still do not after `start_timeout_seconds`."""


class OperatorError(EngineError):
    """A user function raised, or emitted something that cannot travel.

    `operator` is the operator's name, `task` the task it ran in, `record` the shortened repr of
    what it was given (None if it failed without a record), `error` the exception in words,
    `user_traceback` the part of its traceback that lies in the user's code, `full_traceback` all of
    it, which is told where OKA_DEBUG=1 is set.
    """

    def __init__(
        self,
        operator: str,
        task: str,
        record: str | None,
        error: str,
        user_traceback: str,
        hint: str | None = None,
        full_traceback: str = "",
    ) -> None:
        at = "" if record is None else f" on record {record}"
        message = f"operator {operator!r} (task {task}) failed{at}: {error}"
        told = full_traceback if is_debugging() else user_traceback
        if told:
            message += f"\n\n{told.rstrip()}"
        super().__init__(message, hint)
        self.operator = operator
        self.task = task
        self.record = record
        self.error = error
        self.user_traceback = user_traceback
        self.full_traceback = full_traceback


class WorkerLost(EngineError):
    """A worker died: killed, out of memory, or its node is gone.

    `task` is its task, `node` its node, `status` how it ended, `log` its last lines.
    """

    def __init__(self, task: str, node: str, status: str, log: str = "") -> None:
        message = f"worker of task {task} on node {node} was lost: {status}"
        if log:
            message += f"\nlast log lines:\n{log.rstrip()}"
        super().__init__(message, _why_lost(status))
        self.task = task
        self.node = node
        self.status = status
        self.log = log


class DriverLost(EngineError):
    """The driver's node has left the cluster, which ends the job; or this is no driver."""


class ChannelLost(EngineError):
    """A connection between two tasks broke, or a frame on it was missing."""


class JobCancelled(EngineError):
    """The job was stopped by `JobHandle.cancel` or Ctrl-C."""


class JobStopped(JobCancelled):
    """The job ended after the savepoint of this name, as requested."""

    def __init__(self, message: str, hint: str, savepoint: str) -> None:
        super().__init__(message, hint)
        self.savepoint = savepoint


class StartError(EngineError):
    """The workers, or a program beside them, could not be started or not reach each other."""


class ModelError(EngineError):
    """A model cannot be packed, moved or read: the message names the model or its file."""


class CheckpointError(EngineError):
    """A checkpoint cannot be read, or does not suit the job: the message names file or operator."""


class Fenced(CheckpointError):
    """Another driver has taken the job over: this one may store and commit nothing more."""


class StorageError(EngineError):
    """A request to S3, a server of it, or a file of a checkpoint's folder failed.

    `code` is S3's own word where it answered, such as `NoSuchKey` or `SignatureDoesNotMatch`, or
    that of the operating system, such as `ENOSPC`.
    """

    def __init__(self, message: str, hint: str | None = None, *, code: str | None = None) -> None:
        super().__init__(message, hint)
        self.code = code

    @property
    def is_away(self) -> bool:
        """Whether the server did not answer, or cannot now: the same request may pass later."""
        return self.code in _AWAY


def _why_lost(status: str) -> str:
    """A possible reason for this end of a process."""
    if found := re.fullmatch(r"exited with status (\d+)", status):
        return f"something in it, such as os._exit({found[1]}) in a function or a library, ended it"
    if found := re.fullmatch(r"killed by (SIG\w+)", status):
        if found[1] in _OF_CODE:
            return (
                f"a library in compiled code failed ({found[1]}); the log has what was called, the "
                "last call first"
            )
        if found[1] not in ("SIGKILL", "SIGBUS"):
            return f"somebody has sent it {found[1]}"
    if status == LEFT:
        return HINT_LEFT
    return "was it out of memory? `dmesg` names processes the kernel killed"


_AWAY = {
    "Unreachable",
    "InternalError",
    "RequestTimeout",
    "ServiceUnavailable",
    "SlowDown",
    "EHOSTDOWN",
    "EHOSTUNREACH",
    "ENOTCONN",
    "ESTALE",
    "ETIMEDOUT",
}
LEFT = "this process has left its Ray cluster"
"""The status of workers on Ray of which nothing is heard any more."""
HINT_LEFT = "call ray.shutdown() when the jobs have ended: JobHandle.wait_stopped waits for that"
_OF_CODE = ("SIGSEGV", "SIGABRT", "SIGFPE", "SIGILL")


def _restored(
    kind: type[EngineError], arguments: tuple[Any, ...], fields: dict[str, Any]
) -> EngineError:
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(fields)
    return error


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The beginning of a hint where one of the names is much like this one, or nothing."""
    import difflib  # here: most processes never make a mistake

    alike = difflib.get_close_matches(name, list(names), 1, 0.7)
    return f"did you mean {alike[0]!r}? " if alike else ""


def is_debugging() -> bool:
    """Whether OKA_DEBUG asks for the engine's part of every traceback."""
    return os.environ.get("OKA_DEBUG", "") not in ("", "0")


def without_frames(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that its EngineErrors, and Ctrl-C, leave it without its frames.

    They keep their origin as `__context__`, which is not printed.
    """

    @functools.wraps(function)
    def call(*arguments: P.args, **settings: P.kwargs) -> R:
        try:
            return function(*arguments, **settings)
        except (EngineError, KeyboardInterrupt) as error:
            if is_debugging():
                raise
            raise error.with_traceback(None) from None

    return call
