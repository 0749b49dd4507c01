"""The loop of one task: batches from the source or the input gate, through the chain, and out.

Per batch there is only `out = chain.process(batch)` and `gate.emit(out)`; the rest of this file
samples markers, paces an open-load source, and counts.
"""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from engine.columns import check_columns, is_columns
from engine.graph.logical import LogicalOperator
from engine.graph.operator import (
    ERRORS,
    SideFunction,
    SinkOperator,
    SourceOperator,
    TaskContext,
    Transform,
)
from engine.network import (
    Cancelled,
    Control,
    LatencyHistogram,
    Network,
    NetworkStatistics,
    OutputGate,
    open_output_gate,
    use_precise_timers,
)
from engine.runtime.chain import Chain
from engine.runtime.description import (
    LinkStatistics,
    OperatorStatistics,
    TaskDescription,
    TaskStatistics,
)
from engine.runtime.rescue import Rescuer
from engine.runtime.side import drop_rest, receive_beside
from engine.runtime.thread_time import ThreadTime
from engine.runtime.window import SteadyWindow

if TYPE_CHECKING:
    from engine.broadcast import ModelStore


class Deliver(Protocol):
    """Hands on what came out of the chain, and the stamps of the markers behind it."""

    def __call__(self, out: Any, stamps: list[int] | None = None, /) -> Any:
        """Block until the channels take more."""


class Task:
    """One execution vertex at work. `run` blocks until its input ends, it fails, or `cancel`.

    `statistics`, `end_source` and `cancel` may be called from any thread.
    """

    def __init__(
        self, description: TaskDescription, network: Network, models: ModelStore | None = None
    ) -> None:
        config = description.config
        first, *rest = description.operators
        self.description = description
        self.chain = Chain()
        self._network = network
        self._gates: list[OutputGate] = []
        self._models = models
        self._cancelled = threading.Event()
        self._source_ended = False
        self._hurry = threading.Event()
        """Set when the source need not be on time any more."""
        self._source = first.operator if isinstance(first.operator, SourceOperator) else None
        self._source_name = first.name
        self._records_in = 0
        self._chained = rest if self._source else description.operators
        self._is_sink = isinstance(description.operators[-1].operator, SinkOperator)
        self._latency = LatencyHistogram()
        self._window = SteadyWindow(config.warmup_seconds, self._records)
        self._thread: ThreadTime | None = None
        self._started: _Moment | None = None
        self._emitted: _Moment | None = None
        self._ended: _Moment | None = None
        self._last: TaskStatistics | None = None
        self._pacer: _Pacer | None = None

    def run(self) -> TaskStatistics:
        """Open the operators, work until the input ends, and deliver everything.

        The sinks stay open: their output becomes final with `commit`, once every task of the job
        has come this far.
        """
        if self._models is None:
            return self._run()
        from engine.broadcast import use

        use(self._models)
        try:
            return self._run()
        finally:
            use(None)

    def _run(self) -> TaskStatistics:
        self._thread = ThreadTime()
        self._started = self._now()
        use_precise_timers()
        config = self.description.config
        context = TaskContext(
            task_name=self.description.name,
            index=self.description.index,
            parallelism=self.description.parallelism,
            batch_size=config.batch_size,
            job_name=config.name,
            models=self._models,
            pickle=self.description.pickle,
        )
        deliver, side_outputs = self._open_outputs()
        self.chain.open(
            self._chained,
            context,
            encoded=self._source is None,
            side_outputs=side_outputs,
            rescuers=_rescuers(self._chained, side_outputs),
        )
        if self._source is None:
            self._run_from_gate(deliver)
        else:
            self._run_from_source(self._source, context, deliver)
        for out in self.chain.end():
            self._check_cancelled()
            deliver(out)
        self._window.end()
        self._emitted = self._now()
        if self._models is not None:
            self._models.finish()
        self._network.finish()
        self._ended = self._now()
        self._last = self.statistics()
        return self._last

    def commit(self) -> dict[str, Any]:
        """Make the sinks' output final; what each gathered, by operator name."""
        return self.chain.close()

    def abort(self) -> None:
        """Drop what the sinks hold, unless it has become final or was dropped; from any thread."""
        self.chain.abort()

    def end_source(self) -> None:
        """Let the source end after its next batch, as if it had no more; idempotent."""
        self._source_ended = True
        self._hurry.set()

    def cancel(self) -> None:
        """Make `run` raise Cancelled at its next batch; idempotent."""
        self._cancelled.set()
        self._hurry.set()
        self._network.cancel()
        if self._models is not None:
            self._models.cancel()
        if self.chain.side is not None:
            self.chain.side.cancel()

    def statistics(self) -> TaskStatistics:
        """What the task has done up to now."""
        if self._last is not None:
            return self._last
        network = self._network.statistics()
        now = self._now()
        started, ended = self._started or now, self._ended or now
        emitted = self._emitted or ended
        elapsed = (ended.ns - started.ns) / 1e9
        idle = network.idle_seconds + (self._pacer.waited_seconds if self._pacer else 0.0)
        blocked = network.blocked_seconds + (ended.ns - emitted.ns) / 1e9
        inside = max(0.0, elapsed - idle - blocked)
        at_work = inside if emitted.at_work is None else emitted.at_work
        waiting = max(0.0, inside - at_work)
        return TaskStatistics(
            vertex=self.description.vertex,
            index=self.description.index,
            operators=tuple(self._operators()),
            elapsed_seconds=elapsed,
            busy_seconds=inside - waiting,
            waiting_seconds=waiting,
            idle_seconds=idle,
            blocked_seconds=blocked,
            cpu_seconds=ended.process_seconds - started.process_seconds,
            backlog_bytes=network.backlog_bytes,
            dropped_messages=network.dropped_messages,
            refused_connections=network.refused_connections,
            memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            source_window=self._window.bounds() if self._source else None,
            sink_window=self._window.bounds() if self._is_sink else None,
            link=_link(network),
            latency=self._latency.to_bytes() if self._is_sink else None,
        )

    def _now(self) -> _Moment:
        at_work = self._thread.seconds_at_work() if self._thread is not None else None
        return _Moment(time.monotonic_ns(), time.process_time(), at_work)

    def _operators(self) -> list[OperatorStatistics]:
        records = self._records_in
        found = [OperatorStatistics(self._source_name, 0, records)] if self._source else []
        found += self.chain.statistics(records)
        unopened = self.description.operators[len(found) :]
        return found + [OperatorStatistics(operator.name, 0, 0) for operator in unopened]

    def _records(self) -> tuple[int, int]:
        """Records into the task, or out of its source; and out of its last operator."""
        return self._records_in, self._operators()[-1].records_out

    def _open_outputs(self) -> tuple[Deliver, dict[str, dict[str, Deliver]]]:
        """Where the chain's records go, and those of side outputs, by operator and output."""
        gates: list[OutputGate] = []
        side_gates: dict[str, dict[str, list[OutputGate]]] = {}
        for output in self.description.outputs:
            pickle = self.description.pickles(output)
            gate = open_output_gate(self._network, output.partitioner, output.channels, pickle)
            self._gates.append(gate)
            if output.side_output is None:
                gates.append(gate)
            else:
                operator, name = output.side_output
                side_gates.setdefault(operator, {}).setdefault(name, []).append(gate)
        sides = {
            operator: {name: _emit_to_all(gates) for name, gates in outputs.items()}
            for operator, outputs in side_gates.items()
        }
        return _emit_to_all(gates) if gates else self._observe, sides

    def _observe(self, _out: Any, stamps: list[int] | None = None) -> None:
        self._check_cancelled()
        if stamps:
            self._latency.record_many(stamps, time.monotonic_ns())

    def _check_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise Cancelled("the task was cancelled")

    def _restart_latency(self) -> None:
        self._latency = LatencyHistogram()

    def _run_from_gate(self, deliver: Deliver) -> None:
        receive = self._network.receive
        process = self.chain.process
        if self.chain.side is not None:
            self._run_beside(self.chain.side, deliver)
            return
        element = receive()
        self._window.begin(self._restart_latency)
        while element is not None:
            if isinstance(element, Control):
                self._pass_on(element)
            else:
                deliver(process(element), element.markers)
                self._records_in += len(element)
            element = receive()

    def _pass_on(self, control: Control) -> None:
        """To all tasks downstream: no operator holds back what it is about."""
        for gate in self._gates:
            gate.send_control(control)

    def _run_beside(self, side: SideFunction, deliver: Deliver) -> None:
        """As `_run_from_gate`, with a side input, whose records are not counted."""
        process = self.chain.process
        batches = receive_beside(side, self._network, self.description, self._pass_on)
        try:
            for number, batch in enumerate(batches):
                if number == 0:
                    self._window.begin(self._restart_latency)
                deliver(process(batch), batch.markers)
                self._records_in += len(batch)
        except Cancelled:
            if side.error is not None:
                raise side.error from None
            raise
        finally:
            side.close()
        threading.Thread(
            target=drop_rest, args=(self._network, self._models), name="oka-side", daemon=True
        ).start()

    def _run_from_source(
        self, source: SourceOperator[Any], context: TaskContext, deliver: Deliver
    ) -> None:
        items = source.open(context)
        self._window.begin(self._restart_latency)
        if source.rate is None:
            self._run_closed(items, deliver)
        else:
            self._pacer = _Pacer(source.rate / context.parallelism, self._hurry)
            self._run_open(items, deliver, self._pacer)
        if isinstance(items, Generator):
            items.close()  # it may have more, where the task was told to stop

    def _run_closed(self, items: Iterable[Any], deliver: Deliver) -> None:
        """As fast as the pipeline takes it. Records are counted when they bring a marker."""
        process = self.chain.process
        interval = self.description.config.marker_interval
        until_marker = interval
        for item in items:
            batch = item if type(item) is list else self._batch_of(item)
            until_marker -= len(batch)
            if until_marker > 0:
                deliver(process(batch))
            else:
                markers = 1 - until_marker // interval
                until_marker += markers * interval
                deliver(process(batch), [time.monotonic_ns()] * markers)
                self._records_in += markers * interval
            if self._source_ended:
                break
        self._records_in += interval - until_marker

    def _run_open(self, items: Iterable[Any], deliver: Deliver, pacer: _Pacer) -> None:
        """At the source's rate; markers are stamped with the moment that it intends."""
        process = self.chain.process
        interval = self.description.config.marker_interval
        until_marker = interval
        start_ns, ns_per_record = pacer.now_ns, pacer.ns_per_record
        emitted = 0
        for item in items:
            batch = item if type(item) is list else self._batch_of(item)
            due_ns = start_ns + emitted * ns_per_record
            if due_ns > pacer.now_ns:  # else it was due when the clock was last looked at
                pacer.wait_until(due_ns)
            records = len(batch)
            until_marker -= records
            stamps = None
            if until_marker <= 0:
                markers = 1 - until_marker // interval
                until_marker += markers * interval
                stamps = [int(due_ns)] * markers
            deliver(process(batch), stamps)
            emitted += records
            self._records_in = emitted
            if self._source_ended:
                break

    def _batch_of(self, item: Any) -> Any:
        """A batch of columns as it is, or of the only record."""
        if not is_columns(item):
            return [item]
        if not self.chain.accepts_columns:
            self.chain.refuse(item)
        check_columns(item)
        return item


def _emit_to_all(gates: list[OutputGate]) -> Deliver:
    if len(gates) == 1:
        return gates[0].emit

    def emit_to_all(out: Any, stamps: list[int] | None = None) -> None:
        for gate in gates:
            gate.emit(out, stamps)

    return emit_to_all


def _rescuers(
    operators: Sequence[LogicalOperator], side_outputs: Mapping[str, Mapping[str, Deliver]]
) -> dict[str, Rescuer]:
    """By the names of the operators whose failures do not fail the job."""
    found = {}
    for operator in operators:
        if isinstance(operator.operator, Transform) and operator.operator.on_error != "fail":
            found[operator.name] = Rescuer(side_outputs.get(operator.name, {}).get(ERRORS))
    return found


def _link(network: NetworkStatistics) -> LinkStatistics:
    outputs = network.outputs
    return LinkStatistics(
        reconnects=sum(output.reconnects for output in outputs),
        longest_interruption_seconds=max(
            (output.longest_interruption_seconds for output in outputs), default=0.0
        ),
        clock_uncertainty_seconds=max(
            (output.clock_uncertainty_seconds for output in outputs), default=0.0
        ),
    )


class _Moment(NamedTuple):
    """The clocks of a task, read together."""

    ns: int
    process_seconds: float
    """CPU time of the process."""
    at_work: float | None
    """Of the task's thread, since the task began."""


class _Pacer:
    """Open load: holds each batch back until the moment its rate intends for it."""

    def __init__(self, rate: float, hurry: threading.Event) -> None:
        self.ns_per_record = 1e9 / rate
        self.now_ns = time.monotonic_ns()
        """When the clock was last looked at."""
        self.waited_seconds = 0.0
        self._hurry = hurry

    def wait_until(self, due_ns: float) -> None:
        """Wait for this moment, or not at all if it has passed."""
        self.now_ns = time.monotonic_ns()
        delay = (due_ns - self.now_ns) / 1e9
        if delay <= 0:
            return
        delay = max(delay, _LEAST_WAIT_SECONDS)
        if delay < _SHORT_WAIT_SECONDS:
            time.sleep(delay)  # more exact than a wait that can be interrupted
        else:
            self._hurry.wait(delay)
        self.waited_seconds += delay
        self.now_ns = time.monotonic_ns()


_LEAST_WAIT_SECONDS = 50e-6
"""A wake-up takes over 10 µs of CPU: where batches are due more often, several leave at each."""

_SHORT_WAIT_SECONDS = 0.05
