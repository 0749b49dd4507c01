"""The check of a source's rate, which the runtime paces."""

from engine.errors import GraphError


def check_rate(rate: float | None) -> None:
    """Raise `GraphError` unless the rate is None or a number of records per second above 0."""
    if rate is None:
        return
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < float("inf"):
        raise GraphError(
            f"rate is {rate!r}, expected records per second > 0, over all tasks",
            hint="leave rate out to emit as fast as the pipeline takes",
        )
