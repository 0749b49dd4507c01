"""The operators of one task as a list of batch functions.

A per-record operator becomes one comprehension over the batch, so that the user's function has no
wrapper; per batch there is one call for each operator. As an exception passes through an operator,
that adds itself and the record to it (`Chain.failing`): at no cost while nothing fails.

A batch is a list of records or a `pyarrow.RecordBatch`. Where columns could come to an operator
that takes records, there is one check of the batch, and rows are made of columns here, so that no
operator does it itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from engine import console
from engine.checkpoint.lasting import keeping
from engine.columns import Rows, check_columns
from engine.deployment.description import OperatorStatistics
from engine.deployment.reply import text_of
from engine.graph.batch_operator import BatchFunction, BatchOperator, NativeFigures
from engine.graph.context import TaskContext
from engine.graph.failing import FailureContext
from engine.graph.logical import LogicalOperator
from engine.graph.operator import Properties, RecordOperator
from engine.graph.sink import SinkOperator
from engine.graph.splits import Splits
from engine.graph.watermark import START_OF_TIME, Watermark
from engine.network import Batch
from engine.state import KeyedState
from engine.task.drift import aligned_operator
from engine.task.native import NativeStretch, stay_encoded, stretches
from engine.task.places import Place, Stretch, is_in_step
from engine.task.rescued import rescued
from engine.task.runs import (
    Run,
    as_rows,
    check_batch,
    counted,
    encoded_rows,
    in_turn,
    limited,
    listed,
    listed_but,
    of_filter,
    of_flat_map,
    of_key,
    of_map,
    of_rows,
    of_sink,
    unchanged,
)
from engine.task.sinks import Sinks

if TYPE_CHECKING:
    from engine.task.rescue import Rescuer

Around = Callable[[Run, FailureContext, str, str | None], Run]
"""A wrapper of an operator's function; it also gets the operator's name and that of the one
before."""
SideOutputs = Mapping[str, Callable[[list[Any]], None]]
"""The functions that take an operator's side outputs, by name, if something reads them."""


class Chain:
    """The opened operators of a task, in order; `process` takes a batch through all of them.

    Operators that give one record for each have no counter: their count is that of the one before.
    The same holds for a native aggregation, which merges the updates of a batch: its output has the
    effect of each record.
    """

    def __init__(self) -> None:
        self.failing = FailureContext()
        self.reached: Callable[[str], None] = lambda _operator: None
        """Called when an operator has emitted all that its limit lets through."""
        self.around: Around | None = None
        """The tests' wrapper of each operator."""
        self._names: list[str] = []
        self._counters: list[list[int] | None] = []
        self.functions: dict[str, BatchFunction] = {}
        """The functions of batch operators, by operator name."""
        self._runs: list[Run] = []
        self._places: list[Place] = []
        self._timed: list[Place] = []
        self._stretches = [Stretch()]
        self._native: dict[str, NativeFigures] = {}
        self._rescuers: Mapping[str, Rescuer] = {}
        self._taken: Run = unchanged
        self.process: Run = unchanged
        self._contexts: dict[str, TaskContext] = {}
        self.sinks = Sinks(self.failing)

    def open(
        self,
        operators: Sequence[LogicalOperator],
        context: TaskContext,
        *,
        encoded: bool,
        delivers: bool = False,
        side_outputs: Mapping[str, SideOutputs] | None = None,
        rescuers: Mapping[str, Rescuer] | None = None,
        decoding: Callable[[Run], Run] | None = None,
    ) -> None:
        """Open the operators, in order; called once, in the task's process.

        With `encoded`, batches come from the network. They are decoded if the first operator needs
        records; `decoding` may wrap the function for that. With `delivers`, a gate takes what the
        last operator gives. The side outputs, and the handlers of records that do not fail the job,
        are by operator name.
        """
        runs = self._runs
        self._rescuers = rescuers or {}
        natives = stretches(operators, self._rescuers, context.native) if not self.around else {}
        aligned, _ = aligned_operator(operators)
        first = operators[0].operator.properties if operators else _OPEN
        may_be_columns = first.accepts_columns or first.passes_records or 0 in natives
        if not may_be_columns:
            self._taken = as_rows(self.failing.at_work(operators[0].name))
        native: NativeStretch | None = natives.get(0)
        plain: Run = Batch.decode if may_be_columns else Batch.to_list
        decode = plain if decoding is None else decoding(plain)
        takes_batches = first.accepts_batches and decode is plain
        if encoded and not first.accepts_encoded and not takes_batches:
            (runs if native is None else native.interpreted).append(decode)
        gives_later, in_step = False, not encoded
        before = None
        for at, operator in enumerate(operators):
            tell = self.failing.at_work(operator.name)
            tell()
            native = natives.get(at, native)
            into = runs if native is None else native.interpreted
            properties = operator.operator.properties
            if gives_later and native is not None:
                runs.append(listed_but(Batch, Rows))
                into.append(listed)
            elif gives_later:
                taken = {Batch: properties.accepts_batches, Rows: properties.accepts_rows}
                runs.append(listed_but(*(kind for kind, is_taken in taken.items() if is_taken)))
            passes = may_be_columns and properties.passes_records
            if may_be_columns and not passes and not properties.accepts_columns:
                into.append(as_rows(tell))
            rescue = self._rescuers.get(operator.name)
            outputs = (side_outputs or {}).get(operator.name, {})
            own = replace(
                context,
                rescue=rescue,
                check=None if rescue is None else rescue.check,
                side_outputs=outputs,
                failing=self.failing,
                identity=operator.identity,
                native=operator.native or context.native,
                drift=context.drift if operator is aligned else None,
                splits=context.splits if in_step else Splits(),
                only_last=any(
                    each.operator.properties.only_last for each in operators[at + 1 : at + 2]
                ),
            )
            self._contexts[operator.name] = own
            run, counter = self._open(operator, own)
            in_step = in_step and is_in_step(self.functions.get(operator.name))
            if properties.limit is not None and counter is not None:
                reached = partial(self.reached, operator.name)
                run = limited(run, counter, properties.limit, reached)
            if self.around is not None:
                run = self.around(run, self.failing, operator.name, before)
            if passes:
                run = of_rows(run, tell)
            before = operator.name
            self._names.append(operator.name)
            self._counters.append(counter)
            into.append(run)
            if native is not None:
                native.counters.append(counter)
                self._native[operator.name] = native.figures[len(native.counters) - 1]
                if operator is native.operators[-1]:
                    behind = operators[at + 1 :]
                    runs.append(native.run(delivers and stay_encoded(behind, natives)))
                    native = None
            may_be_columns = passes or properties.accepts_columns
            may_be_columns &= not properties.emits_records
            is_native = into is not runs and native is None
            gives_later = is_native or properties.emits_pairs or properties.emits_encoded
            gives_later |= properties.emits_rows
        if gives_later and delivers:
            runs.append(encoded_rows)
        self.failing.operator = None
        if runs:
            self.process = in_turn(tuple(runs))

    def end(self) -> Iterator[Any]:
        """The last batches of the chain: what operators still hold, one operator after another.

        They go through the operators behind, before these end.
        """
        for place in self._places:
            yield from self._given(place, place.function.on_end)

    def take_side(self, records: list[Any]) -> Iterator[Any]:
        """The batches that result from records of the first operator's side input."""
        yield from self._given(self._places[0], self._places[0].function.take_side, records)

    def advance(self, watermark_us: int, stretch: Stretch | None = None) -> Iterator[Any]:
        """The batches in front of a watermark, which is ignored unless it rises.

        It is that of the chain's inputs, or of the operator in front of the stretch.
        """
        stretch = stretch or self._stretches[0]
        if watermark_us > stretch.watermark:
            stretch.watermark = watermark_us
            for place in stretch.places:
                yield from self._given(place, place.function.on_watermark, watermark_us)

    def idle(self, stretch: Stretch | None = None) -> None:
        """Tell operators that their inputs are idle, and event time goes on without them."""
        for place in (stretch or self._stretches[0]).places:
            self.failing.operator = place.name
            place.function.on_idle()
        self.failing.operator = None

    @property
    def makers(self) -> list[BatchFunction]:
        """The operators that make watermarks; watermarks of the chain's inputs end at the first."""
        return [stretch.maker for stretch in self._stretches if stretch.maker is not None]

    @property
    def holders(self) -> list[BatchFunction]:
        """The operators that hold markers until the results have left."""
        return [
            place.function
            for place in self._places
            if type(place.function).hold_markers is not BatchFunction.hold_markers
        ]

    def made_watermarks(self) -> Iterator[tuple[Stretch, Watermark]]:
        """The watermarks that operators have made since the last call, each for its stretch."""
        for stretch in self._stretches:
            maker = stretch.maker
            if maker is not None and (watermark := maker.watermark) is not None:
                maker.watermark = None
                yield stretch, watermark

    def reaches_outputs(self, stretch: Stretch | None) -> bool:
        """Whether watermarks of this stretch leave the chain."""
        return (stretch or self._stretches[0]) is self._stretches[-1]

    @property
    def has_timers(self) -> bool:
        """Whether an operator has an `on_timer`."""
        return bool(self._timed)

    def is_full(self) -> bool:
        """Whether an operator is full and takes no element now."""
        return any(place.function.full for place in self._timed)

    def next_timer(self) -> int | None:
        """The time of the first timer, on the clock of the task."""
        first: int | None = None
        for place in self._timed:
            timer = place.function.next_timer
            if timer is not None and (first is None or timer < first):
                if not isinstance(timer, int | float):
                    self.failing.operator = place.name
                    raise TypeError(
                        f"next_timer is {timer!r:.80}, expected nanoseconds of context.now_ns()"
                    )
                first = timer
        return first

    def fire(self, now_ns: int) -> Iterator[Any]:
        """Call each due timer once; gives the batches that then leave the chain."""
        for place in self._timed:
            timer = place.function.next_timer
            if timer is not None and timer <= now_ns:
                place.function.next_timer = None
                yield from self._given(place, place.function.on_timer, now_ns)

    def taken(self, batch: Any) -> Any:
        """Columns of a source, or their rows if the first operator takes records."""
        check_columns(batch)
        return self._taken(batch)

    def fails_behind(self) -> None:
        """Note that the failing record has left the chain: it cannot be encoded, for example."""
        self.failing.operator = self._names[-1] if self._names else None

    def cancel(self) -> None:
        """Wake a waiting operator; from any thread, and raises nothing."""
        calls = {name: function.cancel for name, function in list(self.functions.items())}
        _call_all(calls, "operator {!r} could not be cancelled")

    def release(self) -> None:
        """Close the operators; raises nothing."""
        calls = {name: function.close for name, function in self.functions.items()}
        _call_all(calls, "operator {!r} could not be closed")

    def abort(self) -> None:
        """Drop the output of sinks that have not committed; idempotent, and raises nothing."""
        _call_all(self.sinks.abort(), "sink {!r} could not drop its output")

    def statistics(self, records: int) -> list[OperatorStatistics]:
        """The records into and out of each operator, if `records` went into the first.

        While the operators open, it has those that are open.
        """
        found = []
        for name, counter in zip(self._names, self._counters, strict=False):
            rescue = self._rescuers.get(name)
            out = records if counter is None else counter[0]
            function = self.functions.get(name)
            failures, late = (function.failures, function.late) if function else (0, 0)
            errors = (rescue.errors, rescue.first_error) if rescue else (0, None)
            native = function.native if function else self._native.get(name)
            told = OperatorStatistics(name, records, out, failures, *errors, late)
            found.append(replace(told, **asdict(native or NativeFigures())))
            records = out
        return found

    def metrics(self) -> list[Mapping[str, Any]]:
        """The operators' measurements; from any thread."""
        return [function.metrics() for function in list(self.functions.values())]

    @property
    def watermark(self) -> int:
        """The last watermark that left the chain or came to its end."""
        return self._stretches[-1].watermark

    def _given(
        self, place: Place, give: Callable[..., Iterable[Any] | None], *arguments: Any
    ) -> Iterator[Any]:
        """Take batches of an operator, from a call without a batch, through those behind it."""
        rest = in_turn(tuple(self._runs[place.following :]))
        self.failing.operator = place.name
        rescuer = self._rescuers.get(place.name)
        for batch in give(*arguments) or ():
            check_batch(batch, give.__name__)
            place.counter[0] += len(batch)
            yield rest(batch)
            self.failing.operator = place.name  # others have worked meanwhile
        if rescuer is not None:
            rescuer.send()
        self.failing.operator = None

    def snapshot(self) -> dict[str, KeyedState]:
        """The state of the operators that have some, by their identity; between two batches."""
        kept = {}
        for name, function in self.functions.items():
            self.failing.operator = name
            with keeping(name, "saved"):
                state = function.snapshot()
            if state is not None:
                kept[self._contexts[name].identity] = state
        self.failing.operator = None
        return kept

    @property
    def watermarks(self) -> dict[str, int]:
        """The event time so far, by identity of the operator that makes it; "" is the inputs."""
        told = {each.identity: each.watermark for each in self._stretches}
        return {name: time_us for name, time_us in told.items() if time_us > START_OF_TIME}

    def advance_to(self, watermarks: Mapping[str, int]) -> Iterator[Any]:
        """Restore event time from `watermarks`; gives the batches that leave the chain."""
        for each in self._stretches:
            yield from self.advance(watermarks.get(each.identity, START_OF_TIME), each)

    def restore(
        self,
        snapshots: Sequence[Mapping[str, KeyedState]],
        meanings: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    ) -> None:
        """Restore the state of all the job's tasks, however many; before the first batch.

        `meanings` are the meanings that operators gave their state, by their identity.
        """
        for name, function in self.functions.items():
            self.failing.operator = name
            own = self._contexts[name]
            if states := [kept[own.identity] for kept in snapshots if own.identity in kept]:
                with keeping(name, "read"):
                    share = KeyedState.share(states, own.index, own.parallelism)
                    meaning = meanings.get(own.identity, {})
                    function.restore(replace(share, meaning=meaning))
        self.failing.operator = None

    def _open(
        self, operator: LogicalOperator, context: TaskContext
    ) -> tuple[Run, list[int] | None]:
        """The operator's batch function, and its counter if it changes the number of records."""
        kind, name = operator.operator, operator.name
        tell = self.failing.at_work(name)
        counter = [0]
        if isinstance(kind, RecordOperator):
            if (rescuer := self._rescuers.get(name)) is not None:
                run = counted(rescued(rescuer.checked(kind), rescuer), counter, tell)
                return rescuer.around(run, tell), counter
            if kind.form in ("map", "key"):
                return (of_map if kind.form == "map" else of_key)(kind.function, tell), None
            form = of_filter if kind.form == "filter" else of_flat_map
            return form(kind.function, counter, tell), counter
        if isinstance(kind, BatchOperator):
            function = kind.open(context)
            if not isinstance(function, BatchFunction):
                raise TypeError(
                    f"{type(kind).__name__}.open returned {type(function).__name__} "
                    f"{function!r:.80}, expected a BatchFunction"
                )
            self.functions[operator.name] = function
            place = Place(operator.name, function, counter, following=len(self._runs) + 1)
            self._places.append(place)
            self._stretches[-1].places.append(place)
            if kind.properties.makes_watermarks:
                self._stretches.append(Stretch(function, context.identity))
            if type(function).on_timer is not BatchFunction.on_timer:
                self._timed.append(place)
            process: Run = function.process
            rescuer = self._rescuers.get(name)
            if rescuer is not None and function.keeps_nothing:
                process = rescuer.checked_batches(process)
            compacts = kind.properties.compacts
            # An operator of encoded batches is the first, which need not name itself.
            if not (compacts and kind.properties.accepts_encoded):
                process = counted(process, counter, tell, takes_nothing=function.takes_nothing)
            if rescuer is not None:
                process = rescuer.around(process, tell)
            return process, None if compacts else counter
        assert isinstance(kind, SinkOperator), f"unknown kind of operator {kind!r}"
        writer = kind.open(context)
        self.sinks.add(name, context.identity, writer)
        return of_sink(writer.write, tell), None


def _call_all(calls: Mapping[str, Callable[[], None]], failed: str) -> None:
    """Make all calls; an error of one is logged, and does not stop the others."""
    for name, call in calls.items():
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - it is the user's, and is told
            console.write(f"{failed.format(name)}: {text_of(error)}\n")


_OPEN = Properties(accepts_columns=True)
"""The properties of a chain without operators, whose reader decides about columns."""
