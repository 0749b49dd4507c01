"""The input gate of a task with a side input: who gets which batch, and when.

Records of the side input go to the operator's function as they arrive, between two batches. Records
that the function holds at the start stay in their channels, which are paused until it lets them
come or the side input has ended. Once the records have ended, so has the task: what still comes of
the side input is for nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Protocol

from engine.graph.operator import SideFunction
from engine.network import Batch, Cancelled, ChannelLost
from engine.runtime.description import TaskDescription
from engine.runtime.services import Services


class Inputs(Protocol):
    """What it needs of the network."""

    def receive(self) -> Batch | None:
        """The next batch; None once all channels ended that are not paused or of a side input."""

    def pause(self, channels: list[int]) -> None:
        """Leave what arrives on these channels where it is."""

    def resume(self) -> None:
        """Give it, now; from any thread."""

    def set_side(self, channels: list[int]) -> None:
        """Make these channels, and no others, a side input, with batches of their own."""

    def cancel(self) -> None:
        """Make every call that waits raise Cancelled."""


def receive_beside(
    side: SideFunction, network: Inputs, description: TaskDescription
) -> Iterator[Batch]:
    """The batches of records, to the end; those of the side input are taken by `side`."""
    sides = frozenset(description.side_inputs)
    network.set_side(sorted(sides))
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


def drop_rest(network: Inputs, services: Services) -> None:
    """Take what still comes of the side input, to its end, for nobody.

    Its senders, who may have other readers, are held up by no task that has ended. What records
    stand for is let go of as they come: a service may keep it until every task has taken it.
    """
    network.set_side([])
    with services.entered(), suppress(Cancelled, ChannelLost):  # the job is ending, or fails
        while (batch := network.receive()) is not None:
            if services:
                with suppress(Exception):  # what cannot be decoded holds up nobody either
                    batch.to_list()


class _NetworkGate:
    """A `Gate` of the task with this network."""

    def __init__(self, network: Inputs) -> None:
        self._network = network

    def resume(self) -> None:
        self._network.resume()

    def fail(self) -> None:
        self._network.cancel()
