"""A kernel of Jupyter in a process of its own, and what its cells show."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.connect import write_connection_file
from jupyter_core.utils import ensure_event_loop

from tests.drivers import Driver


@dataclass
class Cell:
    """What a cell shows by now."""

    streams: dict[str, str] = field(default_factory=lambda: {"stdout": "", "stderr": ""})
    displays: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    """All that each of its displays has shown, one after the other, by MIME type."""
    result: dict[str, str] = field(default_factory=dict)
    """The value of its last line, by MIME type."""
    error: str = ""
    """The type of the exception that ended it."""
    traceback: str = ""

    @property
    def display(self) -> list[dict[str, str]]:
        """What its only display has shown."""
        (shown,) = self.displays.values()
        return shown


class Kernel:
    """A kernel whose cells run one after the other."""

    def __init__(self, driver: Driver, client: BlockingKernelClient) -> None:
        self.driver = driver
        self._client = client
        self._cells: dict[str, Cell] = {}
        self._displays: dict[str, list[dict[str, str]]] = {}

    def run(self, code: str) -> Cell:
        """Run a cell to its end."""
        return self.finish(self.start(code))

    def start(self, code: str) -> str:
        """Start a cell; returns what it is called."""
        cell: str = self._client.execute(code)
        self._cells[cell] = Cell()
        return cell

    def finish(self, name: str) -> Cell:
        """Wait for the end of a cell."""
        deadline = time.monotonic() + 120
        while not self._take(self._client.get_iopub_msg(timeout=deadline - time.monotonic()), name):
            pass
        return self._cells[name]

    def interrupt(self) -> None:
        """As Jupyter's button does: a signal to the kernel and to what is in its process group."""
        os.killpg(self.driver.process.pid, signal.SIGINT)

    def _take(self, message: dict[str, Any], name: str) -> bool:
        """Take a message; whether it is the end of this cell."""
        kind, content = message["msg_type"], message["content"]
        parent = message["parent_header"].get("msg_id")
        cell = self._cells.get(parent, Cell())
        shown = content.get("transient", {}).get("display_id")
        if kind == "stream":
            cell.streams[content["name"]] += content["text"]
        elif kind == "display_data":
            cell.displays[shown] = self._displays[shown] = [content["data"]]
        elif kind == "update_display_data":
            self._displays[shown].append(content["data"])
        elif kind == "execute_result":
            cell.result = content["data"]
        elif kind == "error":
            cell.error, cell.traceback = content["ename"], "\n".join(content["traceback"])
        return kind == "status" and content["execution_state"] == "idle" and parent == name


@contextmanager
def kernel(folder: Path, **environment: str) -> Iterator[Kernel]:
    """A kernel that has nothing of the user's IPython; at the end it is killed with all below."""
    connection = str(folder / "kernel.json")
    write_connection_file(connection, transport="ipc", ip=str(folder / "k"))
    own = {"IPYTHONDIR": str(folder / "ipython"), "JUPYTER_RUNTIME_DIR": str(folder)}
    started = Driver(
        [sys.executable, "-m", "ipykernel_launcher", "-f", connection, "--colors=nocolor"],
        folder / "tmp",
        env={**own, **environment},
        stdout=subprocess.DEVNULL,  # it says how to connect to it
    )
    client = BlockingKernelClient(connection_file=connection)
    try:
        client.load_connection_file()
        client.start_channels(hb=False)  # a busy machine misses beats
        client.wait_for_ready(timeout=120)
        yield Kernel(started, client)
    finally:
        client.stop_channels()
        client.context.destroy(linger=0)
        started.end()
        close_loop()


def close_loop() -> None:
    """Close the event loop that the client of kernels has made, and keeps for its next calls."""
    ensure_event_loop().close()
    asyncio.set_event_loop(None)
