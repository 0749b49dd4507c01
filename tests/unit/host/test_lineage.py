"""How workers end with their server where the kernel does not see to it, as off Linux."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil

from engine.host.lineage import _Elsewhere
from tests.waiting import wait_until

SERVER = """
import os, subprocess, sys, time
from engine.host.lineage import _Elsewhere

lineage = _Elsewhere(os.getppid())
assert not lineage.is_orphan()
worker = os.fork()
if worker == 0:
    os.setsid()
    lineage.end_with(os.getppid())
    left = subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL)
    print(os.getpid(), left.pid, flush=True)
    os.close(1)
    time.sleep(1000)
os.close(1)
sys.stdin.read()
lineage.kill([worker])
"""


def served() -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """A server with a worker that has started a process."""
    command = [sys.executable, "-c", SERVER]
    server = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ}
    )
    assert server.stdout is not None
    return server, [psutil.Process(int(pid)) for pid in server.stdout.read().split()]


def is_gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_all_end_with_a_server_that_is_killed() -> None:
    server, below = served()
    assert len(below) == 2
    server.kill()
    server.communicate()
    wait_until(lambda: all(map(is_gone, below)))


def test_a_server_kills_all_that_its_workers_have_started() -> None:
    server, below = served()
    assert len(below) == 2
    server.communicate("")
    assert server.returncode == 0
    wait_until(lambda: all(map(is_gone, below)))


def test_who_has_another_parent_is_an_orphan() -> None:
    assert not _Elsewhere(os.getppid()).is_orphan()
    assert _Elsewhere(os.getpid()).is_orphan()


def test_a_server_that_starts_too_late_is_an_orphan() -> None:
    late = """
import subprocess
from engine.host import lineage

driver = subprocess.Popen(["true"])
driver.wait()
late = lineage.of(driver.pid)
assert late.is_orphan()
assert not late.descriptors
"""
    subprocess.run([sys.executable, "-c", late], check=True)
