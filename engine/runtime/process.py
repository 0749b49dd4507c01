"""A local worker's process: serves the master's calls from one socket until it closes.

The main thread runs the task; a second one reads the socket, so that `statistics` and `cancel`
are answered while the task runs. When the master goes away, the process ends at once.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from engine.runtime.worker import Worker

Call = tuple[int, str, tuple[Any, ...]]


def main() -> NoReturn:
    """Serve a Worker on the inherited socket whose descriptor is the last argument."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to handle
    connection = Connection(int(sys.argv[-1]))
    worker = Worker()
    calls: queue.SimpleQueue[Call] = queue.SimpleQueue()
    replying = threading.Lock()

    def answer(call: Call) -> None:
        number, method, arguments = call
        try:
            reply = (number, True, getattr(worker, method)(*arguments))
        except Exception as error:  # noqa: BLE001 - the master decides what it means
            reply = (number, False, error)
        with replying:
            connection.send(reply)

    def read() -> None:
        try:
            while True:
                call: Call = connection.recv()
                if call[1] in _ANSWERED_WHILE_RUNNING:
                    answer(call)
                else:
                    calls.put(call)
        except (EOFError, OSError):
            worker.close()
            os._exit(0)

    threading.Thread(target=read, name="oka-control", daemon=True).start()
    while True:
        answer(calls.get())


_ANSWERED_WHILE_RUNNING = {"statistics", "cancel"}
