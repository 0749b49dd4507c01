"""A local worker's process: it serves the calls of the job master from one socket.

The main thread runs the task. A second thread reads the socket, so that `statistics`, `end_source`
and `cancel` get answers while the task runs. Other threads wait for the worker's events, or have
sinks commit. When the driver closes the socket, or is gone, the process ends.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import queue
import signal
import socket
import struct
import threading
from contextlib import suppress
from typing import Any, NoReturn

from engine.host.worker import Worker

Call = tuple[int, str, tuple[Any, ...]]

HEADER = struct.Struct("!QQ")
"""The head of each message: the number of its call, and its length in bytes."""


def serve(control: socket.socket) -> NoReturn:
    """Answer calls until the other end of the socket closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to handle
    faulthandler.enable(_STDERR, all_threads=False)  # the driver's message about a crashed worker
    worker = Worker()
    calls: queue.SimpleQueue[Call] = queue.SimpleQueue()
    replying = threading.Lock()

    def answer(call: Call) -> None:
        number, method, arguments = call
        reply = worker.answer(method, *arguments)
        with replying, suppress(OSError):  # the driver is gone: `read` ends the process
            control.sendall(HEADER.pack(number, len(reply)))
            control.sendall(reply)

    def read() -> None:
        try:
            with control.makefile("rb") as messages:
                while header := messages.read(HEADER.size):
                    number, size = HEADER.unpack(header)
                    call: Call = (number, *pickle.loads(messages.read(size)))  # noqa: S301
                    if call[1] in _ANSWERED_WHILE_RUNNING:
                        answer(call)
                    elif call[1] in _ANSWERED_BESIDE:
                        threading.Thread(target=answer, args=(call,), daemon=True).start()
                    else:
                        calls.put(call)
        finally:  # nobody is left to work for
            worker.close()
            os._exit(0)

    threading.Thread(target=read, name="oka-control", daemon=True).start()
    while True:
        answer(calls.get())


_STDERR = 2
_ANSWERED_WHILE_RUNNING = {
    *("statistics", "end_source", "raise_limit", "barrier", "cancel", "process_id"),
}
_ANSWERED_BESIDE = {"listen", "commit_epoch", "stacks"}
"""Methods that may take long: each call runs in a thread of its own."""
