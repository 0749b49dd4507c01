"""The output of actors on its way to this driver, which waits for its end.

Ray's log monitors bring each line some tenths of a second after it was printed. The output is lost
if the actor is killed, or its driver leaves Ray, before that. So each actor that has printed
anything writes a mark behind its output, and the driver leaves when it has received all marks. Jobs
that print nothing wait for nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from concurrent.futures import Future, wait
from threading import Condition
from typing import Any
from uuid import uuid4

import ray
from ray._private import ray_logging
from ray._private.ray_logging import global_worker_stdstream_dispatcher as dispatcher

from engine.deployment.reply import CallFailed, open_reply
from engine.driver.launcher import WorkerDied
from engine.driver.ray.address import by_client
from engine.host.ray_actor import END_OF_PRINTS


def show_all() -> None:
    """Have Ray show each line, where a job connected to it and no setting says otherwise.

    By default Ray drops lines that differ only in numbers, as the output of two tasks often does.
    """
    if "RAY_DEDUP_LOGS" not in os.environ:
        ray_logging.RAY_DEDUP_LOGS = False  # type: ignore[attr-defined]


class Prints:
    """The prints of one job's actors. Ray writes them to stdout and stderr; this waits for them."""

    def __init__(self) -> None:
        self.mark = f"{END_OF_PRINTS}{uuid4().hex}"
        """The mark that an actor writes behind its last line."""
        _HEARD.listen()

    def wait(self, told: Iterable[Future[bytes]]) -> None:
        """Wait until all prints have come, if there are any.

        `told` are the actors' answers to `end_prints`. It takes 0.2 s, and gives up after a second
        without output, or after ten seconds in all.
        """
        calls = list(told)
        wait(calls, timeout=_ANSWER_SECONDS)
        if any(isinstance(each.exception(), WorkerDied) for each in calls if each.done()):
            time.sleep(_DEAD_SECONDS)  # for earlier output: dead actors write no marks
        expected = sum(_streams(each) for each in calls if each.done())
        if not expected:
            return
        if by_client():  # nobody can listen to how the client receives output
            time.sleep(_CLIENT_SECONDS)
        elif _is_shown():
            _HEARD.wait(self.mark, expected)


class _Heard:
    """The marks that this driver has received; they are not shown."""

    def __init__(self) -> None:
        self._marks: dict[str, set[tuple[Any, ...]]] = {}
        """By mark, the streams of actors that have ended. On a machine with several nodes, each
        node sends all lines."""
        self._last = 0.0
        """When anything was printed."""
        self._changed = Condition()

    def listen(self) -> None:
        """Listen from now on, before lines are shown."""
        if not any(name == END_OF_PRINTS for name, _ in dispatcher.handlers):
            dispatcher.handlers.insert(0, (END_OF_PRINTS, self._hear))

    def wait(self, mark: str, expected: int) -> None:
        """Wait until the mark has come `expected` times."""
        started = self._last = time.monotonic()
        with self._changed:
            while len(self._marks.get(mark, ())) < expected:
                end = min(self._last + _SILENCE_SECONDS, started + _LONGEST_SECONDS)
                if (left := end - time.monotonic()) <= 0:
                    break
                self._changed.wait(left)
            self._marks.pop(mark, None)
        # The handlers behind this one show the lines; their thread holds the lock until it has.
        with dispatcher._lock:
            pass

    def _hear(self, data: dict[str, Any]) -> None:
        marks = [line for line in data["lines"] if line.startswith(END_OF_PRINTS)]
        with self._changed:
            self._last = time.monotonic()
            if marks:
                data["lines"] = [line for line in data["lines"] if line not in marks]
                for mark in marks:
                    stream = data["ip"], data["pid"], data["is_err"]
                    self._marks.setdefault(mark, set()).add(stream)
                self._changed.notify_all()


def _streams(call: Future[bytes]) -> int:
    """The number of streams on which an actor has written the mark: 0 if it is gone."""
    if call.exception() is not None:
        return 0
    try:
        return int(open_reply(call.result()))
    except CallFailed:
        return 0


def _is_shown() -> bool:
    """Whether Ray brings prints here at all (`ray.init(log_to_driver=…)`)."""
    return getattr(ray._private.worker.global_worker, "logger_thread", None) is not None


_HEARD = _Heard()
_ANSWER_SECONDS = 0.5
_DEAD_SECONDS = 0.5
_SILENCE_SECONDS = 1.0
_LONGEST_SECONDS = 10.0
_CLIENT_SECONDS = 0.6
