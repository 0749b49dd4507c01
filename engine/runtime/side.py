"""The input gate of a task with a side input: who gets which batch, and when.

Records of the side input go to the operator's function as they arrive, between two batches. Records
that the function holds at the start stay in their channels, which are paused until it lets them
come or the side input has ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from engine.graph.operator import SideFunction
from engine.network import Batch
from engine.runtime.description import TaskDescription


class Paused(Protocol):
    """What it needs of the network."""

    def receive(self) -> Batch | None:
        """The next batch; None once all channels ended, or all that are not paused."""

    def pause(self, channels: list[int]) -> None:
        """Leave what arrives on these channels where it is."""

    def resume(self) -> None:
        """Give it, now; from any thread."""

    def keep_apart(self, channels: list[int]) -> None:
        """Let no batch hold records of these channels and of others."""

    def cancel(self) -> None:
        """Make every call that waits raise Cancelled."""


def receive_beside(
    side: SideFunction, network: Paused, description: TaskDescription
) -> Iterator[Batch]:
    """The batches of records, to the end; those of the side input are taken by `side`."""
    sides = frozenset(description.side_inputs)
    network.keep_apart(sorted(sides))
    held = side.holds_records
    if held:
        network.pause([channel for channel in description.inputs if channel not in sides])
    side.begin(_NetworkGate(network))
    while True:
        batch = network.receive()
        if batch is None:
            if not held:
                return
            held = False
            network.resume()  # the side input has ended: what waits can wait for nothing else
        elif batch.channel in sides:
            side.take_side(batch.to_list())
        else:
            yield batch


class _NetworkGate:
    """A `Gate` of the task with this network."""

    def __init__(self, network: Paused) -> None:
        self._network = network

    def resume(self) -> None:
        self._network.resume()

    def fail(self) -> None:
        self._network.cancel()
