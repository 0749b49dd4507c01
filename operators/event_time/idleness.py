"""The detection of streams that are idle from outside, rather than held up inside."""


class Idleness:
    """Finds a stream idle that brings no record for `after_ns` nanoseconds.

    Only waiting counts. While a task works, or is held up from downstream, it does not look at its
    timers; then it looks at them first. So an overdue timer alone proves nothing. Hence the wait
    has two halves, and records in between begin the first again: in the second half the task does
    nothing but wait.

    >>> idleness = Idleness(10, now_ns=0)
    >>> idleness.due_ns, idleness.has_come(5), idleness.due_ns, idleness.has_come(10)
    (5, False, 10, True)
    """

    def __init__(self, after_ns: int, now_ns: int) -> None:
        self.is_idle = False
        self.due_ns: int | None = None
        """The time of the next `has_come`; never while the stream is idle."""
        self._half_ns = -(-after_ns // 2)
        self._is_second = False
        self.on_records(now_ns)

    def on_records(self, now_ns: int) -> None:
        """Begin the wait anew: records have come."""
        self.is_idle = self._is_second = False
        self.due_ns = now_ns + self._half_ns

    def has_come(self, now_ns: int) -> bool:
        """Whether the stream has just become idle."""
        if self.due_ns is None or now_ns < self.due_ns:
            return False
        self.is_idle = self._is_second
        self._is_second = True
        self.due_ns = None if self.is_idle else now_ns + self._half_ns
        return self.is_idle
