"""The input gate of a task with a side input: who gets which batch, and when.

Records of the side input go to the operator's function as they arrive, between two batches. Records
that the function holds at the start stay in their channels, which are paused until it lets them
come or the side input has ended. Once the records have ended, so has the task: what still comes of
the side input is for nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from engine.graph.operator import SideFunction
from engine.network import Batch, Cancelled, ChannelLost
from engine.runtime.description import TaskDescription

if TYPE_CHECKING:
    from engine.broadcast import ModelStore


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
    held = description.operators[0].operator.properties.holds_records
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


def drop_rest(network: Inputs, models: ModelStore | None) -> None:
    """Take what still comes of the side input, to its end, for nobody.

    Its senders, who may have other readers, are held up by no task that has ended. Models are let
    go of as they come: a node keeps each until every task has taken it.
    """
    network.set_side([])
    if models is not None:
        from engine.broadcast import use

        use(models)
    try:
        while (batch := network.receive()) is not None:
            if models is not None:
                with suppress(Exception):  # what cannot be decoded holds up nobody either
                    batch.to_list()
    except (Cancelled, ChannelLost):
        pass  # the job is ending, or fails for whoever is at the other end
    finally:
        if models is not None:
            use(None)


class _NetworkGate:
    """A `Gate` of the task with this network."""

    def __init__(self, network: Inputs) -> None:
        self._network = network

    def resume(self) -> None:
        self._network.resume()

    def fail(self) -> None:
        self._network.cancel()
