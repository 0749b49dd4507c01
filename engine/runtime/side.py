"""The input gate of a task with a side input: who gets which batch, and when.

Records of the side input go to the operator's function as they arrive, between two batches. Records
that the function holds at the start stay in their channels, which are paused until it lets them
come or the side input has ended. Once the records have ended, so has the task: what still comes of
the side input is for nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from engine.graph.operator import SideFunction
from engine.network import Batch, Cancelled, ChannelLost, Control
from engine.runtime.description import TaskDescription

if TYPE_CHECKING:
    from engine.broadcast import ModelStore


class Inputs(Protocol):
    """What it needs of the network."""

    def receive(self) -> Batch | Control | None:
        """The next element; None once all channels ended that are not paused or of a side input."""

    def pause(self, channels: list[int], reason: str) -> None:
        """Leave what arrives on these channels where it is."""

    def resume(self, channels: list[int], reason: str) -> None:
        """Give what was left for this reason, now; from any thread."""

    def include_side_inputs(self) -> None:
        """Give what still comes of side inputs, to their end."""

    def cancel(self) -> None:
        """Make every call that waits raise Cancelled."""


def receive_beside(
    side: SideFunction,
    network: Inputs,
    description: TaskDescription,
    pass_on: Callable[[Control], None],
) -> Iterator[Batch]:
    """The batches of records, to the end; those of the side input are taken by `side`."""
    gate = _NetworkGate(network, list(description.main_inputs))
    held = side.holds_records
    if held:
        gate.hold()
    side.begin(gate)
    while True:
        element = network.receive()
        if element is None:
            if not held:
                return
            held = False
            gate.resume()  # the side input has ended: what waits can wait for nothing else
        elif isinstance(element, Control):
            pass_on(element)
        elif element.input == SIDE:
            side.take_side(element.to_list())
        else:
            yield element


def drop_rest(network: Inputs, models: ModelStore | None) -> None:
    """Take what still comes of the side input, to its end, for nobody.

    Its senders, who may have other readers, are held up by no task that has ended. Models are let
    go of as they come: a node keeps each until every task has taken it.
    """
    network.include_side_inputs()
    if models is not None:
        from engine.broadcast import use

        use(models)
    try:
        while (element := network.receive()) is not None:
            if models is not None and isinstance(element, Batch):
                with suppress(Exception):  # what cannot be decoded holds up nobody either
                    element.to_list()
    except (Cancelled, ChannelLost):
        pass  # the job is ending, or fails for whoever is at the other end
    finally:
        if models is not None:
            use(None)


class _NetworkGate:
    """A `Gate` of the task with this network, to these channels of records."""

    def __init__(self, network: Inputs, channels: list[int]) -> None:
        self._network = network
        self._channels = channels

    def hold(self) -> None:
        self._network.pause(self._channels, _REASON)

    def resume(self) -> None:
        self._network.resume(self._channels, _REASON)

    def fail(self) -> None:
        self._network.cancel()


SIDE = 1
"""The number of the side input; that of the records is 0."""

_REASON = "nothing of the side input"
"""Why records are held."""
