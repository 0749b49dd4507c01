"""The check of a rate, of a source's records or of calls."""

from engine.errors import GraphError


def check_rate(rate: float | None, what: str = "records") -> None:
    """Raise `GraphError` unless the rate is None or a number per second above 0."""
    if rate is None:
        return
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < float("inf"):
        raise GraphError(
            f"rate is {rate!r}, expected {what} per second > 0, over all tasks",
            hint="leave rate out to go as fast as the pipeline does",
        )
