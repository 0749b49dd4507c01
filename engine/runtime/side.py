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

from engine.graph.operator import BatchFunction
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


class SideInput:
    """Where the batches of such a task come from, and the `Gate` of its first operator."""

    def __init__(self, network: Inputs, description: TaskDescription) -> None:
        self.error: BaseException | None = None
        """Why the operator ended the task."""
        self._network = network
        self._channels = frozenset(description.side_inputs)
        self._held = description.operators[0].operator.properties.holds_records
        network.set_side(sorted(self._channels))
        if self._held:
            network.pause([each for each in description.inputs if each not in self._channels])

    def batches(self, function: BatchFunction) -> Iterator[Batch]:
        """The batches of records, to the end; those of the side input are taken by the function."""
        held = self._held
        while True:
            batch = self._network.receive()
            if batch is None:
                if not held:
                    return
                held = False
                self._network.resume()  # what waits can wait for nothing else: the side has ended
            elif batch.channel in self._channels:
                function.take_side(batch.to_list())
            else:
                yield batch

    def resume(self) -> None:
        """Let held records come."""
        self._network.resume()

    def fail(self, error: BaseException) -> None:
        """End the task with this error, even while it waits."""
        self.error = error
        self._network.cancel()


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
