"""A thread that watches a source's channels while the source has no records."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from engine.network import Cancelled, ChannelLost, Network


@contextmanager
def watched(network: Network, lost: Callable[[ChannelLost], None]) -> Iterator[None]:
    """Have `lost` called from another thread, at most once, as soon as a channel is lost.

    A task notices a lost channel when it emits or receives, but not while it waits for its source.
    The network must be that of a task without inputs.
    """
    over = threading.Event()

    def look() -> None:
        while not over.wait(_PERIOD_SECONDS):
            try:
                network.receive(0.0)  # nothing can be received; it raises the error
            except TimeoutError:
                continue  # the task has no channels
            except ChannelLost as error:
                lost(error)
                return
            except Cancelled:
                return

    thread = threading.Thread(target=look, name="oka-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


_PERIOD_SECONDS = 0.25
