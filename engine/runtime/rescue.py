"""What becomes of records that an operator's function fails on, where that is not the job's end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from engine.columns import is_columns, rows
from engine.graph.failing import Failing
from engine.network import Cancelled, ChannelLost
from engine.runtime.failure import in_words, shortened

if TYPE_CHECKING:
    from engine.runtime.services import Services

Run = Callable[[Any], Any]


class Rescuer:
    """The `Rescue` of one operator in one task: it counts, and keeps what goes to a side output.

    `errors` and `first_error` may be read from any thread.
    """

    def __init__(
        self, emit: Callable[[list[Any]], None] | None, failing: Failing | None = None
    ) -> None:
        self.errors = 0
        self.first_error: str | None = None
        self._emit = emit
        self._failing = failing or Failing()
        self._aside: list[tuple[Any, str]] = []

    def __call__(self, record: Any, error: BaseException) -> None:
        """Count a record that the function failed on, and put it aside."""
        if not isinstance(error, Exception) or isinstance(error, _OF_THE_JOB):
            self._failing.on(record)
            raise error
        words = in_words(error).partition("\n\nhint: ")[0]
        if self.first_error is None:
            self.first_error = f"{words} on {shortened(record)}"
        self.errors += 1
        if self._emit is not None:
            self._aside.append((record, words))

    def around(self, run: Run) -> Run:
        """The batch function, with what it has put aside sent off after each batch."""
        if self._emit is None:
            return run

        def rescued(batch: Any) -> Any:
            out = run(batch)
            if self._aside:
                self.send()
            return out

        return rescued

    def send(self) -> None:
        """Send off what was put aside since the last time."""
        if self._aside and self._emit is not None:
            aside, self._aside = self._aside, []
            self._emit(aside)


class ServiceRescuer(Rescuer):
    """Has services deal with what the function fails on; what is not for them fails the job.

    What they do not want any more goes no further.
    """

    def __init__(self, services: Services, failing: Failing) -> None:
        super().__init__(None, failing)
        self._services = services

    def __call__(self, record: Any, error: BaseException) -> None:
        """Count a record that the function failed on, once a service has dealt with it."""
        super().__call__(record, error)
        if not self._services.rescue([record], in_words(error)):
            self._failing.on(record)
            raise error

    def around(self, run: Run) -> Run:
        """The batch function; where it fails as a whole, all its records have."""

        def rescued(batch: Any) -> Any:
            if type(batch) is list:
                wanted = self._services.wanted(batch)
                if batch and not wanted:
                    return []
                batch = wanted
            try:
                return run(batch)
            except _OF_THE_JOB:
                raise
            except Exception as error:
                records = rows(batch) if is_columns(batch) else batch
                if type(records) is not list or not self._services.rescue(records, in_words(error)):
                    raise
                self.errors += len(records)
                self.first_error = self.first_error or in_words(error)
                return []

        return rescued


_OF_THE_JOB = (Cancelled, ChannelLost)
