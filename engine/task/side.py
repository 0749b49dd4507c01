"""The input gate of a task with a side input, which decides about the order of both inputs.

Records of the side input go to the operator's function as they arrive, between two batches. The
function may hold the main records at the start: their channels are paused until it resumes them or
the side input has ended. The task ends with the main records, and drops the rest of the side input,
unless the operator waits for the side input's end, too.
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
        """The operator's error, which ends the task."""
        self._network = network
        self._records = list(description.first_inputs)
        properties = description.operators[0].operator.properties
        self.is_awaited = properties.ends_with_side
        """Whether the task ends when the side input has, too."""
        self._records_ended = False
        self._ready = ready
        """Called when the main records need not wait any more."""
        self.holds = self._held = properties.holds_records
        """Whether the main records wait for the side input at the start."""
        if self._held:
            network.pause(self._records, _REASON)

    def around(self, receive: Receive, take: Callable[[Batch], None]) -> Receive:
        """As `receive`, with a function that takes the batches of the side input."""

        def receive_main() -> Batch | Control | None:
            while True:
                element: Batch | Control | None = receive()
                if element is None and self._held:
                    self._held = False
                    self.resume()  # the side input has ended
                elif element is None and self.is_awaited and not self._records_ended:
                    self._records_ended = True
                    self._network.include_side_inputs()
                elif isinstance(element, Batch) and element.input == SIDE:
                    take(element)
                elif self._records_ended and _tells_time(element):
                    continue  # a watermark of the side input counts for nobody
                else:
                    return element

        return receive_main

    def resume(self) -> None:
        """Resume held records."""
        self._network.resume(self._records, _REASON)
        self._ready()

    def fail(self, error: BaseException) -> None:
        """End the task with this error, even while it waits."""
        self.error = error
        self._network.cancel()


def drop_rest(network: Network, services: Services) -> None:
    """Receive the rest of the side input, to its end, and drop it.

    So an ended task does not hold up the senders, which may have other readers. It also decodes the
    records: a service may keep a value until every task has taken it.
    """
    network.include_side_inputs()
    while (element := _next(network)) is not None:
        if services and isinstance(element, Batch):
            with suppress(Exception):  # an undecodable record must not hold up senders either
                element.to_list()


def drop_rest_beside(network: Network, services: Services) -> None:
    """As `drop_rest`, in a thread of its own, after the task's end."""
    with services.entered(), suppress(Cancelled, ChannelLost):  # the job is ending, or fails
        drop_rest(network, services)


def _next(network: Network) -> Batch | Control | None:
    """The next element, for a task whose operators have ended."""
    while True:
        with suppress(InterruptedError):
            return network.receive()


def _tells_time(element: Batch | Control | None) -> bool:
    return isinstance(element, Control) and element.epoch is None


SIDE = 1
"""The number of the side input; that of the records is 0."""

_REASON = "nothing of the side input"
"""What a task with held records still waits for."""
