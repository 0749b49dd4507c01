"""The treatment of records that an operator's function fails on, without an end of the job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engine.columns import is_columns, rows
from engine.graph.failing import FailureContext
from engine.graph.operator import RecordOperator
from engine.network import Cancelled, ChannelLost, DecodeError
from engine.task.failure import in_words, shortened
from engine.task.runs import Run, Tell

if TYPE_CHECKING:
    from engine.deployment.services import Services

Emit = Callable[..., Any]


class Rescuer:
    """The `Rescue` of one operator in one task: it counts failed records, and puts them aside.

    `errors` and `first_error` may be read from any thread.
    """

    def __init__(
        self, emit: Callable[[list[Any]], None] | None, failing: FailureContext | None = None
    ) -> None:
        self.errors = 0
        self.first_error: str | None = None
        self._emit = emit
        self._failing = failing or FailureContext()
        self._aside: list[tuple[Any, str]] = []

    def __call__(self, record: Any, error: BaseException) -> None:
        """Count a record that the function failed on, and put it aside."""
        if not isinstance(error, Exception) or isinstance(error, _OF_THE_JOB):
            self._failing.on(record)
            raise error
        words = self._count(record, error)
        if self._emit is not None:
            self._aside.append((record, words))

    def _count(self, record: Any, error: BaseException) -> str:
        words = in_words(error).partition("\n\nhint: ")[0]
        if self.first_error is None:
            self.first_error = f"{words} on {shortened(record)}"
        self.errors += 1
        return words

    check: Callable[[Any], None] | None = None
    """Raises TypeError for results that the next operator does not take."""

    def checked(self, operator: RecordOperator) -> RecordOperator:
        """The operator, with a function that fails on results that the next one does not take."""
        return operator

    def checked_batches(self, run: Run) -> Run:
        """As `checked`, for a function of whole batches."""
        return run

    def around(self, run: Run, tell: Tell) -> Run:
        """The batch function; records that it puts aside are sent after each batch."""
        if self._emit is None:
            return run

        def rescued(batch: Any) -> Any:
            out = run(batch)
            if self._aside:
                try:
                    self.send()
                except BaseException:
                    tell()
                    raise
            return out

        return rescued

    def send(self) -> None:
        """Send the records that were put aside since the last call."""
        if self._aside and self._emit is not None:
            aside, self._aside = self._aside, []
            self._emit(aside)


class ServiceRescuer(Rescuer):
    """Has services handle the records that the function fails on; others fail the job.

    Records that a service no longer wants go no further. `check` is that of the next operator: if
    it refuses a result, the function has failed.
    """

    def __init__(
        self,
        services: Services,
        failing: FailureContext,
        check: Callable[[Any], None] | None = None,
    ) -> None:
        super().__init__(None, failing)
        self._services = services
        self.check = check

    def __call__(self, record: Any, error: BaseException) -> None:
        """Count a record that the function failed on, once a service has dealt with it.

        This holds for all exceptions, `SystemExit` too: one record must not end a server for
        others.
        """
        is_dealt_with = not isinstance(error, _OF_THE_JOB) and self._services.rescue(
            [record], in_words(error)
        )
        if not is_dealt_with:
            self._failing.on(record)
            raise error
        self._count(record, error)

    def checked(self, operator: RecordOperator) -> RecordOperator:
        """The operator, with a function that fails if `check` refuses its result."""
        function, check = operator.function, self.check
        if check is None or operator.form in ("filter", "key"):
            return operator

        def checked(record: Any) -> Any:
            given = function(record)
            check(given)
            return given

        def all_checked(record: Any) -> list[Any]:
            given = list(function(record))
            for each in given:
                check(each)
            return given

        return replace(operator, function=all_checked if operator.form == "flat_map" else checked)

    def checked_batches(self, run: Run) -> Run:
        """As `checked`. Of as many results as records, each belongs to the record in its place."""
        if (check := self.check) is None:
            return run

        def checked(batch: Any) -> Any:
            out = run(batch)
            if type(out) is not list:
                check(out)
                return out
            wrong: dict[int, TypeError] = {}
            for place, each in enumerate(out):
                try:
                    check(each)
                except TypeError as raised:
                    wrong[place] = raised
            if not wrong:
                return out
            if type(batch) is not list or len(batch) != len(out):
                raise next(iter(wrong.values()))
            for place, error in wrong.items():
                self(batch[place], error)
            return [each for place, each in enumerate(out) if place not in wrong]

        return checked

    def around(self, run: Run, tell: Tell) -> Run:  # noqa: ARG002 - `run` has told
        """The batch function; if it fails as a whole, all its records have failed."""

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
            except BaseException as error:
                records = _records(batch)
                if records is None and isinstance(error, DecodeError):
                    records = [None] * len(batch)  # their requests are not known
                if records is None or not self._services.rescue(records, in_words(error)):
                    raise
                self.errors += len(records)
                self.first_error = self.first_error or in_words(error)
                return []

        return rescued


def emitting(emit: Emit, services: Services) -> Emit:
    """A function that hands records on, for services that handle records that cannot travel."""
    if not services.has_rescue:
        return emit

    def emit_rescued(out: Any, stamps: list[int] | None = None) -> None:
        while True:
            try:
                emit(out, stamps)
                return
            except _OF_THE_JOB:
                raise
            except Exception as error:
                records = _records(out)
                if records is None:
                    raise
                if is_columns(out):
                    out = []
                else:  # the records before it have left
                    place = getattr(error, "record_index", None)
                    if place is None:
                        raise
                    records, out = [records[place]], records[place + 1 :]
                if not services.rescue(records, in_words(error)):
                    raise

    return emit_rescued


def decoding(decode: Run, services: Services) -> Run:
    """A function that decodes batches, for services that handle records that cannot be decoded.

    An example is an object whose class does not take its own pickle. Its request is not known.
    """
    if not services.has_rescue:
        return decode

    def decode_rescued(batch: Any) -> Any:
        try:
            return decode(batch)
        except DecodeError:
            found = []
            for record in batch.apart():
                try:
                    found += record.to_list()
                except DecodeError as error:
                    if not services.rescue([None], in_words(error)):
                        raise
            return found

    return decode_rescued


def _records(batch: Any) -> list[Any] | None:
    """The records of a batch; None if they cannot be decoded."""
    if type(batch) is list:
        return batch
    try:
        return rows(batch) if is_columns(batch) else batch.to_list()
    except Exception:  # noqa: BLE001 - of what is in it
        return None


_OF_THE_JOB = (Cancelled, ChannelLost)
