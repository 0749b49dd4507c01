"""Whether brokers answer, and what is said while they do not."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from engine import console
from operators.kafka.errors import REFUSED, LastError, is_away


class Availability(LastError):
    """The `error_cb` of a client that goes on by itself once a broker answers.

    It tells on stderr what the client has waited for, from time to time, and when that has ended.
    """

    def __init__(self, who: str, servers: str) -> None:
        super().__init__()
        self._who, self._servers = who, servers
        self._since: float | None = None
        """Since when no broker answers."""
        self._next_line = self._next_look = self._next_renewal = 0.0
        self._is_told = False

    def __call__(self, error: Any) -> None:
        """Note an error that the client's threads told of."""
        super().__call__(error)
        if is_away(error) and self._since is None:
            now = time.monotonic()
            self._since, self._next_line, self._next_look = now, now + _FIRST_SECONDS, now
            self._next_renewal = now + _RENEWAL_SECONDS

    def note(self, error: Any) -> bool:
        """Note that a request failed with this error; whether waiting may help."""
        if is_away(error) and self._since is None:
            self(error)
        return is_away(error) and (self.error is None or self.error.name() not in REFUSED)

    @property
    def is_away(self) -> bool:
        """Whether no broker answers."""
        return self._since is not None

    def answers(self) -> None:
        """Note that a broker answers."""
        if self._since is not None:
            if self._is_told:
                seconds = time.monotonic() - self._since
                console.write(f"{self._who}: a broker answers again, after {seconds:.0f} s\n")
            self._since, self._is_told = None, False

    def is_renewal_due(self) -> bool:
        """Whether the client has looked for a broker for so long that a new one is to look.

        A broker that has just started may answer that there are no brokers. A client of librdkafka
        then forgets all addresses, and asks nobody any more (confluentinc/librdkafka#5301).
        """
        if self._since is None or (now := time.monotonic()) < self._next_renewal:
            return False
        self._next_renewal = now + _RENEWAL_SECONDS
        return True

    def look(self, ask: Callable[[], Any]) -> None:
        """Tell of a wait; see now and then whether a broker answers. Call it while one waits."""
        if self._since is None or (now := time.monotonic()) < self._next_look:
            return
        self._next_look = now + _LOOK_SECONDS
        try:
            ask()
        except Exception:  # noqa: BLE001 - the client's class is imported where it is needed
            self.tell()
        else:
            self.answers()

    def tell(self) -> None:
        """Say what is waited for, and why, unless that was said a short while ago."""
        if self._since is None or (now := time.monotonic()) < self._next_line:
            return
        self._next_line, self._is_told = now + _LINE_SECONDS, True
        why = "it does not answer" if self.error is None else self.error.str()
        seconds = now - self._since
        console.write(
            f"{self._who}: waits for a broker at {self._servers}, for {seconds:.0f} s: {why}\n"
        )


_FIRST_SECONDS, _LINE_SECONDS = 3.0, 20.0
_LOOK_SECONDS = 1.0
_RENEWAL_SECONDS = 15.0
