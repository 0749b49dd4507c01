"""A join at work in one task: its state, behind records of two inputs, watermarks and the end."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from engine.columns import is_columns, joined, slices
from engine.expression.lift import Refusal
from engine.expression.understood import are_lifted, understood
from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.graph.watermark import START_OF_TIME, Watermark
from engine.network import Join as Matcher
from engine.state import KeyedState
from operators.changes.one_form import OneForm
from operators.event_time import LATE, with_units_checked
from operators.joins.encoded import JoinEncoded, PairFunction
from operators.joins.joining import AT_THE_END, NEVER, SIDES, Joining, Results
from operators.joins.records import JoinRecords

if TYPE_CHECKING:
    from operators.joins.columns import JoinColumns


@dataclass(frozen=True)
class Join(BatchOperator):
    """A join of two keyed streams."""

    joining: Joining

    name: ClassVar[str]
    keeps_joined: ClassVar[bool] = False
    """Whether the state of records has which of them had partners."""
    sides: ClassVar[tuple[str, ...]] = SIDES
    """Its side outputs of records without a partner."""

    @property
    def properties(self) -> Properties:
        """Its watermarks hold for the times of both partners."""
        is_called = self.joining.function is not None and not self._functions
        return Properties(
            accepts_encoded=True,
            accepts_columns=self.joining.takes_columns,
            emits_encoded=self._is_lifted,
            two_inputs=True,
            outputs=(LATE, *self.sides),
            makes_watermarks=True,
            functions=self._functions,
            way="Python: has changes" if is_called else None,
            meaning={"kind": self.name, **self.joining.meaning, **self.meaning},
        )

    @property
    def meaning(self) -> dict[str, Any]:
        """Further settings that must be the same for the state to be usable."""
        return {}

    @property
    def _functions(self) -> tuple[tuple[Callable[..., Any], int], ...]:
        """Its function, unless changes come, or results are taken back."""
        results, function = self.results((False, False)), self.joining.function
        has_changes = self.joining.has_changes or results.are_changes or results.are_rows
        return () if function is None or has_changes else ((function, 2),)

    @cached_property
    def _is_lifted(self) -> bool:
        """Whether its function is understood: `properties` is asked for again and again."""
        return are_lifted(self._functions)

    def lifted(self, context: TaskContext) -> PairFunction | None:
        """The function for Rust, if it is to run there and can."""
        if not self._is_lifted or context.native == "off" or context.rescue is not None:
            return None
        found = understood(self)
        if isinstance(found, Refusal):
            return None
        return PairFunction(self.name, self.joining, found[0], context)

    def open(self, context: TaskContext) -> BatchFunction:
        """The join in one task, without any record."""
        times = [each.time for each in self.joining.inputs]
        return with_units_checked(JoinFunction(self, context), times, context)

    @abstractmethod
    def watermark_of_results(self, watermark_us: int) -> int:
        """The watermark for the results that come behind this one of the inputs."""

    @abstractmethod
    def matcher(self, aside: tuple[bool, bool]) -> Matcher:
        """What finds partners by keys and times, without any record.

        It tells of records without a partner on the sides of which they come out, or go `aside`.
        """

    def results(self, aside: tuple[bool, bool]) -> Results:
        """What it gives, with these sides' records without a partner in side outputs."""
        return Results(aside)

    def of_records(
        self, context: TaskContext, kind: type[JoinRecords] = JoinRecords
    ) -> JoinRecords:
        """The state of a task for records."""
        results = self.results(_aside(context))
        matcher, keeps_joined = self.matcher(results.aside), self.keeps_joined
        return kind(self.name, self.joining, matcher, context, results, keeps_joined=keeps_joined)

    def of_columns(self, context: TaskContext) -> "JoinColumns":
        """The state of a task for columns."""
        from operators.joins.columns import JoinColumns

        results = self.results(_aside(context))
        return JoinColumns(self.name, self.joining, self.matcher(results.aside), results)


class JoinFunction(BatchFunction):
    """Brings records and watermarks to the state, and late records to their output.

    Operators behind it get earlier watermarks, so that no record in a result has a time before an
    earlier watermark. The first batch decides whether it keeps records or columns.
    """

    def __init__(self, operator: Join, context: TaskContext) -> None:
        self._operator = operator
        self._context = context
        self._send_late = context.side_outputs.get(LATE)
        self._send_alone = [context.side_outputs.get(name) for name in SIDES]
        self._takes_columns = operator.joining.takes_columns
        inputs = operator.joining.inputs
        self._forms = [OneForm(each.key_of_columns, changes=each.changes) for each in inputs]
        self._function = operator.lifted(context)
        self.native = None if self._function is None else self._function.native
        self._state: JoinRecords | JoinColumns = operator.of_records(
            context, JoinRecords if self._function is None else JoinEncoded
        )
        self._columns: JoinColumns | None = None
        self._watermark = NEVER
        self._told: int | None = None
        self._has_told = False
        """Whether those behind know what columns results have."""

    def process(self, batch: Any) -> Any:
        """The results that a batch of one input makes with all that has come."""
        if (natively := self._natively()) is not None and len(batch):
            encoded, function = natively
            found = encoded.add(batch.input, batch)
            if not isinstance(found, str):
                self._put_aside(encoded)
                function.native.native += len(batch)
                return function(found)
            function.native.fell_back(found)
            self._take_objects(encoded)
        records = batch.decode()
        if not len(records) and not is_columns(records):  # markers alone, which are neither
            return []
        form = self._forms[batch.input]
        if self._takes_columns:
            records = form.of(records, keeps_columns=self._keeps_columns)
        else:
            records = form.rows(records)
        state = self._state_of(records)
        if self._columns is not None:
            return self._of_columns(self._columns, batch.input, records)
        found = state.add(batch.input, records)
        self._put_aside(state)
        return self._operator.joining.made(found, self._context.failing)

    def _natively(self) -> tuple[JoinEncoded, PairFunction] | None:
        """The state of encoded records and the function, as long as that runs in Rust."""
        state, function = self._state, self._function
        if function is None or not isinstance(state, JoinEncoded):
            return None
        if not function.has_given_up:
            return state, function
        self._take_objects(state)
        return None

    def _take_objects(self, state: JoinEncoded) -> None:
        """Go on with objects, for good."""
        self._state = of_objects = self._operator.of_records(self._context)
        of_objects.take_over(state)

    def _of_columns(self, state: "JoinColumns", side: int, batch: Any) -> Any:
        """As `process`; also the results that waited until the columns were known."""
        waited, found = state.waits, []
        if waited or not len(batch):
            state.look(side, batch)
        if waited and not state.waits:
            found += state.owed()
        if len(batch):
            found += state.add(side, batch)
        self._put_aside(state)
        if not self._has_told and (nothing := state.without_rows()) is not None:
            self._has_told = True
            found = [nothing, *found]
        if waited and not state.waits and self._watermark != NEVER:
            found += state.close(self._watermark)
            self._tell()
        return joined(found) if found else []

    def on_watermark(self, watermark_us: int) -> Iterator[Any]:
        """The results that are complete now, and the watermark for those behind it."""
        self._watermark = watermark_us
        if self._columns is not None and self._columns.waits:
            return
        yield from self._close(watermark_us)
        self._tell()

    def _tell(self) -> None:
        """Tell of the watermark that the state has been told of."""
        of_results = self._operator.watermark_of_results(int(self._watermark))
        of_results = max(START_OF_TIME, of_results)
        if of_results != self._told:
            self._told = of_results
            self.watermark = Watermark(of_results)

    def on_idle(self) -> None:
        """Make the output idle, too."""
        self._told = None
        self.watermark = Watermark(None)

    def on_end(self) -> Iterator[Any]:
        """All results that are left."""
        return self._close(AT_THE_END)

    def metrics(self) -> Mapping[str, Any]:
        """The size of the state."""
        return {"state_records": self._state.kept}

    def snapshot(self) -> KeyedState:
        """What is kept of each key."""
        return self._state.snapshot(self._context.pickle)

    def restore(self, state: KeyedState) -> None:
        """Go on with the state of these keys."""
        for schemas in state.all_columns or filter(None, [state.columns]):
            self._take_columns().learn(schemas)
        try:
            self._state.restore(state.items())
        except ValueError:  # Rust cannot tell some key from others
            if not isinstance(self._state, JoinEncoded):
                raise
            self._state = self._operator.of_records(self._context)
            self._state.restore(state.items())

    def _state_of(self, records: Any) -> "JoinRecords | JoinColumns":
        """The state for them, which is of columns from the first of these on."""
        if is_columns(records) == (self._columns is not None):
            return self._state
        return self._take_columns()

    @property
    def _keeps_columns(self) -> bool | None:
        return None if self._columns is None and not self._state.kept else self._columns is not None

    def _take_columns(self) -> "JoinColumns":
        self._state = self._columns = self._operator.of_columns(self._context)
        if not self._columns.waits:
            list(self._columns.close(self._watermark))
        return self._columns

    def _put_aside(self, state: "JoinRecords | JoinColumns") -> None:
        for send, alone in zip(self._send_alone, state.alone, strict=True):
            if alone and send is not None:
                for records in [alone[:]] if self._columns is None else alone:
                    send(records)
                alone.clear()
        if not state.late:
            return
        late, state.late = state.late, []
        if self._columns is None:
            late = [late]
        for records in late:
            self.late += len(records)
            if self._send_late is not None:
                self._send_late(records)

    def _close(self, watermark: float) -> Iterator[Any]:
        """In batches, so that what is behind is not held up by thousands of results."""
        self._watermark = watermark
        natively = self._natively()
        found, most = self._state.close(watermark), self._context.batch_size
        if self._columns is not None:
            for batch in found:
                yield from slices(batch, most)
                self._put_aside(self._state)
            self._put_aside(self._state)
            return
        if natively is not None:
            _, function = natively
            for pairs in found:
                yield function(pairs)
                self._put_aside(self._state)
            self._put_aside(self._state)
            return
        while pairs := list(islice(found, most)):
            yield self._operator.joining.made(pairs, self._context.failing)
            self._put_aside(self._state)
        self._put_aside(self._state)


def _aside(context: TaskContext) -> tuple[bool, bool]:
    """Of which side somebody reads the records without a partner."""
    left, right = (name in context.side_outputs for name in SIDES)
    return left, right
