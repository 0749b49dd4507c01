"""Declarations, which the fluent API makes.

A declaration is one operator with the declarations it reads from; declaring does nothing else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from engine.config import Native
from engine.graph.operator import Operator
from engine.partitioner import Forward, Partitioner, label


@dataclass(frozen=True, eq=False)
class Declaration:
    """One operator as declared.

    `identity` survives `dataclasses.replace`, so that two settings of one operator are noticed.
    `named` tells a name the user gave from a default, which may get a suffix.
    """

    operator: Operator
    name: str
    inputs: tuple["Input", ...] = ()
    named: bool = False
    parallelism: int | None = None
    resources: Mapping[str, float] = field(default_factory=dict)
    nodes: tuple[int, ...] = ()
    pickle: bool = False
    native: Native | None = None
    identity: object = field(default_factory=object)


@dataclass(frozen=True, eq=False)
class Input:
    """An edge as declared: where the records come from and how they are divided."""

    source: Declaration
    partitioner: Partitioner
    input: int = 0
    """The number of the operator's input that it belongs to: 1 is the second of two."""
    output: str | None = None
    """The side output that they come from; None is the main output."""


@runtime_checkable
class Executable(Protocol):
    """An object that can be executed: it ends in a sink."""

    @property
    def declaration(self) -> Declaration:
        """The sink's declaration."""


@runtime_checkable
class OpenStream(Protocol):
    """A stream that something may still read from."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The edges the next operator would have."""


def shown(inputs: Sequence[Input]) -> str:
    """The path to these edges for messages: `text_files -> flat_map -> hash by 0`.

    Where several streams come together it begins with their last operators.
    """
    steps: list[str] = []
    while len(inputs) == 1:
        (declared,) = inputs
        if not isinstance(declared.partitioner, Forward):
            steps.append(label(declared.partitioner))
        if declared.output is not None:
            steps.append(f"side output {declared.output}")
        steps.append(declared.source.name)
        inputs = main_inputs(declared.source)
    if inputs:
        steps.append(f"({' | '.join(declared.source.name for declared in inputs)})")
    return " -> ".join(reversed(steps))


def main_inputs(declaration: Declaration) -> list[Input]:
    """The edges of its inputs, without those of a side input."""
    has_side = declaration.operator.properties.side_input
    return [edge for edge in declaration.inputs if not (has_side and edge.input)]
