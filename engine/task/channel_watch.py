"""A thread that looks whether a source's channels are whole, while the source has nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from engine.network import Cancelled, ChannelLost, Network


@contextmanager
def watched(network: Network, lost: Callable[[ChannelLost], None]) -> Iterator[None]:
    """Have `lost` called from another thread, at most once, as soon as a channel is lost.

    A task notices that when it emits or receives. One that waits for its source does neither. The
    network is that of a task without inputs.
    """
    over = threading.Event()

    def look() -> None:
        while not over.wait(_PERIOD_SECONDS):
            try:
                network.receive(0.0)  # there is nothing to receive; it tells what went wrong
            except TimeoutError:
                continue  # it has no channels at all
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
