"""Whether a stream is idle because nothing comes from outside, rather than held up inside."""


class Idleness:
    """Finds a stream idle that brings no record for so many nanoseconds.

    Only waiting counts. A task does not look at its timers while it is at work or held up by those
    downstream, and then looks at them first, so that one that is overdue says nothing. Hence the
    time is waited for in two halves, and records that come in between begin with the first again:
    the second half passes while the task does nothing but wait.

    >>> idleness = Idleness(10, now_ns=0)
    >>> idleness.due_ns, idleness.has_come(5), idleness.due_ns, idleness.has_come(10)
    (5, False, 10, True)
    """

    def __init__(self, after_ns: int, now_ns: int) -> None:
        self.is_idle = False
        self.due_ns: int | None = None
        """When `has_come` is to be asked; never where it is idle."""
        self._half_ns = -(-after_ns // 2)
        self._is_second = False
        self.on_records(now_ns)

    def on_records(self, now_ns: int) -> None:
        """Begin anew: records have come."""
        self.is_idle = self._is_second = False
        self.due_ns = now_ns + self._half_ns

    def has_come(self, now_ns: int) -> bool:
        """Whether it has just become idle."""
        if self.due_ns is None or now_ns < self.due_ns:
            return False
        self.is_idle = self._is_second
        self._is_second = True
        self.due_ns = None if self.is_idle else now_ns + self._half_ns
        return self.is_idle
