"""The destinations of a task's batches: its output gates, and those of side outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from engine.deployment.description import TaskDescription
from engine.deployment.services import Services
from engine.graph.batch_operator import BatchFunction
from engine.graph.watermark import Watermark
from engine.network import Control, Network, OutputGate, open_output_gate
from engine.task.rescue import emitting


class Deliver(Protocol):
    """Passes on the chain's output, and the stamps of the markers behind it."""

    def __call__(self, out: Any, stamps: list[int] | None = None, /) -> Any:
        """Block until the channels take more."""


class Outputs:
    """The output gates of a task."""

    def __init__(self, description: TaskDescription, network: Network, services: Services) -> None:
        self._description = description
        self._network = network
        self._services = services
        self._gates: list[OutputGate] = []

    def open(self) -> tuple[Deliver | None, dict[str, dict[str, Deliver]]]:
        """The gates of the chain's records, if any, and those of side outputs.

        The latter are by operator and output.
        """
        emits: list[Deliver] = []
        side_emits: dict[str, dict[str, list[Deliver]]] = {}
        for output in self._description.outputs:
            pickle = self._description.pickles(output)
            gate = open_output_gate(self._network, output.partitioner, output.channels, pickle)
            self._gates.append(gate)
            emit = emitting(gate.emit, self._services)
            if output.side_output is None:
                emits.append(emit)
            else:
                operator, name = output.side_output
                side_emits.setdefault(operator, {}).setdefault(name, []).append(emit)
        sides = {
            operator: {name: _emit_to_all(emits) for name, emits in outputs.items()}
            for operator, outputs in side_emits.items()
        }
        return _emit_to_all(emits) if emits else None, sides

    def send_control(self, control: Control) -> None:
        """Send a control to all tasks downstream."""
        for gate in self._gates:
            gate.send_control(control)


def with_results(deliver: Deliver, holders: Sequence[BatchFunction]) -> Deliver:
    """As `deliver`; markers leave with the results that these operators give for their records."""

    def deliver_with_results(out: Any, stamps: list[int] | None = None) -> None:
        for holder in holders:
            stamps = holder.hold_markers(stamps or [])
        deliver(out, stamps)

    return deliver_with_results


def control_of(watermark: Watermark) -> Control:
    """The control for the tasks downstream."""
    time_us = watermark.time_us
    return Control.idle() if time_us is None else Control.watermark(time_us)


def _emit_to_all(emits: list[Deliver]) -> Deliver:
    if len(emits) == 1:
        return emits[0]

    def emit_to_all(out: Any, stamps: list[int] | None = None) -> None:
        for emit in emits:
            emit(out, stamps)

    return emit_to_all
