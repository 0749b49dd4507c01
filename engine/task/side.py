"""The input gate of a task with a side input: who gets which batch, and when.

Records of the side input go to the operator's function as they arrive, between two batches. Records
that the function holds at the start stay in their channels, which are paused until it lets them
come or the side input has ended. Once the records have ended, so has the task: what still comes of
the side input is for nobody, unless the operator wants its end, too.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from engine.deployment.description import TaskDescription
from engine.deployment.services import Services
from engine.network import Batch, Cancelled, ChannelLost, Control, Network
from engine.task.clock import Receive


class SideInput:
    """The elements of a task with a side input, and the `Gate` of its first operator."""

    def __init__(
        self, network: Network, description: TaskDescription, ready: Callable[[], None]
    ) -> None:
        self.error: BaseException | None = None
        """Why the operator ended the task."""
        self._network = network
        self._records = list(description.first_inputs)
        properties = description.operators[0].operator.properties
        self.is_awaited = properties.ends_with_side
        """Whether the task ends when the side input has, too."""
        self._records_ended = False
        self._ready = ready
        """Called when they need not wait any more."""
        self.holds = self._held = properties.holds_records
        """Whether records wait for the side input at the start."""
        if self._held:
            network.pause(self._records, _REASON)

    def around(self, receive: Receive, take: Callable[[Batch], None]) -> Receive:
        """As `receive`, but this function takes what comes of the side input."""

        def receive_main() -> Batch | Control | None:
            while True:
                element: Batch | Control | None = receive()
                if element is None and self._held:
                    self._held = False
                    self.resume()  # what waits can wait for nothing else: the side has ended
                elif element is None and self.is_awaited and not self._records_ended:
                    self._records_ended = True
                    self._network.include_side_inputs()
                elif isinstance(element, Batch) and element.input == SIDE:
                    take(element)
                elif self._records_ended and _tells_time(element):
                    continue  # the side's, which is nobody's
                else:
                    return element

        return receive_main

    def resume(self) -> None:
        """Let held records come."""
        self._network.resume(self._records, _REASON)
        self._ready()

    def fail(self, error: BaseException) -> None:
        """End the task with this error, even while it waits."""
        self.error = error
        self._network.cancel()


def drop_rest(network: Network, services: Services) -> None:
    """Take the rest of the side input, to its end, and drop it.

    Its senders, who may have other readers, are held up by no task that has ended. What records
    stand for is let go of as they come: a service may keep it until every task has taken it.
    """
    network.include_side_inputs()
    while (element := _next(network)) is not None:
        if services and isinstance(element, Batch):
            with suppress(Exception):  # what cannot be decoded holds up nobody either
                element.to_list()


def drop_rest_beside(network: Network, services: Services) -> None:
    """As `drop_rest`, in a thread of its own, behind a task that has ended."""
    with services.entered(), suppress(Cancelled, ChannelLost):  # the job is ending, or fails
        drop_rest(network, services)


def _next(network: Network) -> Batch | Control | None:
    """The next element, for a task whose operators need not be called any more."""
    while True:
        with suppress(InterruptedError):
            return network.receive()


def _tells_time(element: Batch | Control | None) -> bool:
    return isinstance(element, Control) and element.epoch is None


SIDE = 1
"""The number of the side input; that of the records is 0."""

_REASON = "nothing of the side input"
"""Why records are held."""
