"""Signals that end the job of `oka run`: emitted records go through first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn
from uuid import uuid4

from engine.errors import EngineError
from engine.job import JobHandle

SIGTERM_STATUS = 128 + signal.SIGTERM


@contextmanager
def stopped_by_signals(handle: JobHandle, drain_seconds: float) -> Iterator[list[signal.Signals]]:
    """Within the block the first Ctrl-C stops the job, and where it has time, SIGTERM does.

    The signal that did is in the list. Another one ends the job at once, and so does the end of the
    time that SIGTERM gives.
    """
    found: list[signal.Signals] = []
    before = {}

    def stop(number: signal.Signals, what: str) -> None:
        found.append(number)
        if handle.is_waiting:
            handle.cancel()
            return
        handle.say(what)
        handle.stop()

    def at_interrupt(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        stop(signal.SIGINT, "stopping: what is under way goes through; Ctrl-C again ends at once")

    def at_interrupt_with_checkpoints(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        found.append(signal.SIGINT)
        if handle.is_waiting:  # for nodes: its last checkpoint is all that there is
            handle.cancel()
            return
        handle.say("stopping behind a checkpoint; Ctrl-C again ends at once")
        threading.Thread(target=_stop_behind_checkpoint, args=[handle], daemon=True).start()

    def at_sigterm(_number: int, _frame: object) -> None:
        for each in (signal.SIGTERM, signal.SIGALRM):
            signal.signal(each, _exit)
        signal.setitimer(signal.ITIMER_REAL, drain_seconds)
        told = f"SIGTERM: the job finishes what is under way, within {drain_seconds:g} s"
        stop(signal.SIGTERM, told)

    # One that ignores Ctrl-C goes on to, and so does a thread that gets no signals.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler and _is_main():
        interrupt = at_interrupt_with_checkpoints if handle.has_checkpoints else at_interrupt
        before[signal.SIGINT] = signal.signal(signal.SIGINT, interrupt)
    if drain_seconds:
        before[signal.SIGTERM] = signal.signal(signal.SIGTERM, at_sigterm)
    try:
        yield found
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop_behind_checkpoint(handle: JobHandle) -> None:
    """So that the job can go on from there: one that has finished cannot."""
    with suppress(EngineError):  # it ended by itself
        handle.savepoint(f"stopped-{uuid4().hex[:12]}", stop="now")


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def _exit(_number: int, _frame: object) -> NoReturn:
    raise SystemExit(SIGTERM_STATUS)
