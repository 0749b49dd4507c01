"""Waiting for something that a running job or a process of its own will bring about."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any


def wait_until(condition: Callable[[], Any], seconds: float = 300.0) -> Any:
    """What the condition gives as soon as it is true; raises AssertionError if it never is."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.005)
    raise AssertionError(f"the condition did not come true in {seconds:g} s")


def pauses(condition: Callable[[], Any], batch: Any = None) -> Iterator[Any]:
    """What a source yields until the condition is true: one empty batch after the other."""
    while not condition():
        time.sleep(0.005)
        yield [] if batch is None else batch
