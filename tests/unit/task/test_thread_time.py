"""A thread that sleeps is not at work; one that computes is, also where it waits for a core."""

import os
import subprocess
import sys
import threading
import time

from engine.task.figures import ThreadTime
from tests.waiting import wait_until


def test_sleep_is_no_work() -> None:
    began = time.monotonic()
    thread = ThreadTime()
    time.sleep(0.2)
    at_work = thread.seconds_at_work()
    assert at_work is not None
    assert time.monotonic() - began - at_work >= 0.19


def test_what_computes_is_at_work_also_while_others_have_its_core() -> None:
    spin = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(spin) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        began, thread = time.monotonic(), ThreadTime()
        while time.monotonic() < began + 0.5:
            pass
        at_work, elapsed = thread.seconds_at_work(), time.monotonic() - began
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert at_work is not None
    assert at_work > 0.6 * elapsed


def test_another_thread_may_read_it_as_long_as_it_lives() -> None:
    made, seen = threading.Event(), threading.Event()
    found: list[ThreadTime] = []

    def work() -> None:
        found.append(ThreadTime())
        made.set()
        seen.wait()

    worker = threading.Thread(target=work)
    worker.start()
    made.wait()
    assert found[0].seconds_at_work() is not None
    seen.set()
    worker.join()  # which returns a moment before the kernel's thread is gone
    wait_until(lambda: found[0].seconds_at_work() is None)
