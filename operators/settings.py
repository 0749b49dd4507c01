"""A user's settings of one operator: its name, parallelism, resources and nodes."""

from dataclasses import replace
from typing import get_args

from engine.config import Native
from engine.errors import GraphError
from engine.graph.declaration import Declaration
from engine.resources import check_names
from operators.take import Take


def named(declaration: Declaration, name: str) -> Declaration:
    """The operator under this name."""
    if not isinstance(name, str) or not name.strip():
        raise GraphError(f"named() got {name!r}, expected a text that is not empty")
    return replace(declaration, name=name, named=True)


def with_parallelism(declaration: Declaration, parallelism: int) -> Declaration:
    """The operator with this parallelism."""
    if not isinstance(parallelism, int) or isinstance(parallelism, bool) or parallelism < 1:
        raise GraphError(f"with_parallelism() got {parallelism!r}, expected an integer >= 1")
    if isinstance(declaration.operator, Take) and parallelism > 1:
        raise GraphError(
            f"with_parallelism() got {parallelism} for {declaration.name!r}, expected 1: there is "
            "one count of what was taken"
        )
    return replace(declaration, parallelism=parallelism)


def with_resources(
    declaration: Declaration, cpus: float | None, custom: dict[str, float]
) -> Declaration:
    """The operator with these resources of each of its tasks."""
    resources = custom if cpus is None else {"cpus": cpus, **custom}
    if not resources:
        raise GraphError("with_resources() got nothing, expected such as cpus=2")
    for name, amount in resources.items():
        if not isinstance(amount, int | float) or not 0 <= amount < float("inf"):
            raise GraphError(f"with_resources() got {name}={amount!r}, expected a number >= 0")
    try:
        check_names(resources)
    except ValueError as error:
        raise GraphError(f"with_resources() got {error}") from None
    amounts = {name: float(amount) for name, amount in resources.items()}
    return replace(declaration, resources={**declaration.resources, **amounts})


def native(declaration: Declaration, mode: Native) -> Declaration:
    """The operator with this way of its functions of records."""
    if mode not in get_args(Native):
        words = ", ".join(map(repr, get_args(Native)))
        raise GraphError(f"native() got {mode!r}, expected one of {words}")
    return replace(declaration, native=mode)


def on_nodes(declaration: Declaration, numbers: tuple[int, ...]) -> Declaration:
    """The operator pinned to these nodes."""
    if not numbers:
        raise GraphError("on_nodes() got nothing, expected numbers of nodes such as 0, 1")
    for number in numbers:
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            raise GraphError(f"on_nodes() got {number!r}, expected integers >= 0")
    return replace(declaration, nodes=numbers)
