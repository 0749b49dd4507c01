"""One task at work: batches from the source or the input gate, through the chain, and out.

Each batch from the gate costs `out = chain.process(batch)` and `deliver(out)`. `SourceLoop` has the
loop of a source, `Figures` counts, and `Outputs` are the task's gates.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import Any

from engine.checkpoint import TaskSnapshot
from engine.deployment.description import TaskDescription, TaskStatistics
from engine.deployment.scheduling import take_turns
from engine.deployment.services import Services
from engine.errors import StorageError
from engine.graph.batch_operator import BatchFunction
from engine.graph.context import TaskContext
from engine.graph.failing import FailureContext
from engine.graph.logical import LogicalOperator
from engine.graph.source import SourceOperator
from engine.network import Batch, Cancelled, ChannelLost, Control, Network, use_precise_timers
from engine.task.chain import Chain
from engine.task.clock import SYSTEM_CLOCK, Clock, Receive
from engine.task.drift import Drift, aligned_operator
from engine.task.figures import Figures
from engine.task.heap import fill_gaps
from engine.task.outputs import Deliver, Outputs, control_of, with_results
from engine.task.places import Stretch
from engine.task.rescue import Rescuer, ServiceRescuer, decoding
from engine.task.side import SideInput, drop_rest, drop_rest_beside
from engine.task.sinks import Prepared
from engine.task.snapshots import Snapshots
from engine.task.source.channel_watch import watched
from engine.task.source.loop import SourceLoop
from engine.task.timers import Timers


class Task:
    """One execution vertex at work. `run` blocks until its input ends, it fails, or `cancel`.

    `statistics`, `end_source` and `cancel` may be called from any thread.
    """

    def __init__(
        self,
        description: TaskDescription,
        network: Network,
        services: Services | None = None,
        clock: Clock = SYSTEM_CLOCK,
        snapshots: Snapshots | None = None,
    ) -> None:
        config = description.config
        first, *rest = description.operators
        self.description = description
        self.chain = Chain()
        self._network = network
        self._snapshots = snapshots
        """Takes the task's snapshots at barriers; None without checkpoints."""
        self._services = Services() if services is None else services
        self.lost: Callable[[ChannelLost], None] = lambda _error: None
        """Called, in another thread, if a channel is lost while the task waits for its source."""
        self._outputs = Outputs(description, network, self._services)
        self._cancelled = threading.Event()
        self._clock = clock
        _, drift_us = aligned_operator(description.operators)
        self.drift = None if drift_us is None or clock.is_virtual else Drift(drift_us)
        """Holds the source, if an operator limits its lead over others."""
        self._source = (
            SourceLoop(
                first.operator,
                self.chain,
                config.marker_interval,
                clock,
                self.drift,
                has_barriers=snapshots is not None,
            )
            if isinstance(first.operator, SourceOperator)
            else None
        )
        self._chained: Sequence[LogicalOperator] = description.operators
        if isinstance(first.operator, SourceOperator):
            behind = first.operator.followed_by
            self._chained = rest if behind is None else [replace(first, operator=behind), *rest]
        self._last_operator = description.operators[-1].name
        self._figures = Figures(
            description, self.chain, self._source, network, self._services, clock, snapshots
        )
        self._deliver: Deliver = self._figures.observe

    def run(self) -> TaskStatistics:
        """Open the operators, work until the input ends, deliver all, and have the sinks prepare.

        Their output becomes final with `commit`, once every task of the job has come this far.
        """
        with self._services.entered():
            return self._run()

    def _run(self) -> TaskStatistics:
        self._figures.start()
        use_precise_timers()
        fill_gaps()
        if self.description.bulk:
            take_turns(self.description.neighbours)
        config = self.description.config
        side = (
            SideInput(self._network, self.description, self._services.ready)
            if self.description.has_side_input
            else None
        )
        start = None if self._snapshots is None else self._snapshots.start
        context = TaskContext(
            task_name=self.description.name,
            index=self.description.index,
            parallelism=self.description.parallelism,
            batch_size=config.batch_size,
            job_name=config.name,
            pickle=self.description.pickle,
            native=config.native,
            gate=side,
            now_ns=self._clock.now_ns,
            is_virtual=self._clock.is_virtual,
            wake=self.wake,
            drift=self.drift,
            checkpoints=start is not None,
            generation=0 if start is None else start.generation,
            committed=0 if start is None else start.committed,
            open_shares=None if start is None or not start.epoch else start.open_shares,
        )
        try:
            self._process(context, side)
        finally:
            self.chain.release()
        self._figures.has_emitted()
        self.chain.failing.operator = self._last_operator  # the publishing operator is the last
        self._services.finish()
        self.chain.failing.operator = None
        self._network.finish()
        statistics = self._figures.end()
        if self._snapshots is None:
            self.chain.sinks.prepare()
        else:
            self._write_snapshot(self._snapshots.epoch + 1, is_finished=True)
        return statistics

    def _process(self, context: TaskContext, side: SideInput | None) -> None:
        """Take all batches through the chain, and the last batches of its operators at the end."""
        main, side_outputs = self._outputs.open()
        self._deliver = main or self._figures.observe
        self.chain.open(
            self._chained,
            context,
            encoded=self._source is None,
            delivers=main is not None,
            side_outputs=side_outputs,
            rescuers=_rescuers(self._chained, side_outputs, self.chain.failing, self._services),
            decoding=partial(decoding, services=self._services),
        )
        self._check_cancelled()  # from here on, `cancel` wakes waiting operators
        if holders := self.chain.holders:
            self._deliver = with_results(self._deliver, holders)
        if side is None or not side.holds:
            self._services.ready()
        if makers := self.chain.makers:
            self._deliver = self._then_tell_time(self._deliver, makers)
        if self._snapshots is not None and self._restore(self._snapshots):
            self._figures.window.begin()
            self._drain(side)
            return
        timers = Timers(self.chain, self._clock, self._fire)
        if self._source is not None:
            own = replace(context, identity=self.description.operators[0].identity)
            with watched(self._network, self.lost):
                self._source.run(own, self._deliver, self._figures.window, timers, self._pass_on)
            self._check_cancelled()
        else:
            receive = timers.around(self._clock.around(self._network.receive))
            if side is None:
                self._run_from_gate(receive)
            else:
                self._run_beside(side, receive)
        self._emit(self.chain.end())

    def _emit(self, given: Iterator[Any]) -> None:
        """Deliver the batches that the chain gives without an input batch."""
        for out in given:
            self._check_cancelled()
            try:
                self._deliver(out)
            except BaseException:
                self.chain.fails_behind()
                raise

    def _restore(self, snapshots: Snapshots) -> bool:
        """Restore the state of the last checkpoint's tasks; returns whether this task had ended."""
        kept, description = snapshots.read(), self.description
        self._figures.go_on(kept)
        self.chain.restore([each.operators for each in kept], snapshots.start.meanings)
        if self._source is not None:
            first = description.operators[0]
            ends = not first.operator.properties.gives_again
            self._source.restore(
                {
                    share: self._source.ended(position) if each.finished and ends else position
                    for each in kept
                    for share, position in each.positions.get(first.identity, {}).items()
                    if share % description.parallelism == description.index
                },
                max((each.shares for each in kept), default=0),
            )
        ours = (e.prepared for e in kept if e.index % description.parallelism == description.index)
        self.chain.sinks.restore(snapshots.start.epoch, ours)
        at_work = [each.watermarks for each in kept if not each.finished]
        names = set.intersection(*map(set, at_work)) if at_work else ()
        least = {name: min(each[name] for each in at_work) for name in names}
        self._emit(self.chain.advance_to(least))
        return snapshots.start.is_finished

    def _drain(self, side: SideInput | None) -> None:
        """Wait for the end of inputs that had ended before the checkpoint."""
        if side is not None:
            side.resume()
        if self.drift is not None:
            self.drift.tell(None)  # the other sources do not wait for this one
        if self._source is None:
            drop_rest(self._network, self._services)

    def _write_snapshot(self, epoch: int, *, is_finished: bool = False) -> None:
        """Take a snapshot of the task between two elements; another thread writes it."""
        assert self._snapshots is not None
        description, source = self.description, self._source
        first = description.operators[0].identity
        began = time.monotonic()
        prepared = self._prepare(self._snapshots, epoch, is_finished)
        if prepared is None:
            return
        positions, is_told = ({}, False) if source is None else source.snapshot(epoch)
        self._snapshots.write(
            epoch,
            TaskSnapshot(
                vertex=description.vertex,
                index=description.index,
                parallelism=description.parallelism,
                finished=is_finished,
                chain=tuple(operator.identity for operator in description.operators),
                operators={} if is_finished else self.chain.snapshot(),
                watermarks=self.chain.watermarks,
                positions={} if source is None else {first: positions},
                shares=0 if source is None else source.shares,
                prepared=prepared,
                counts=self._figures.counts(),
            ),
            commits=bool(prepared) or is_told,
        )
        self._figures.has_paused(time.monotonic() - began)

    def _prepare(self, snapshots: Snapshots, epoch: int, is_finished: bool) -> Prepared | None:
        """The sinks' prepared output; None if their storage is silent and the epoch given up.

        The next epoch then has this output, too. A finished task has no next epoch, and tries
        again.
        """
        while True:
            try:
                return self.chain.sinks.prepare(epoch)
            except StorageError as error:
                if not error.is_away:
                    raise
                self.chain.failing.operator = None
                snapshots.fail(epoch, error)
            if not is_finished:
                return None
            self._wait_again()

    def _wait_again(self) -> None:
        self._cancelled.wait(_AGAIN_SECONDS)
        self._check_cancelled()

    def begin_epoch(self, epoch: int, is_last: bool) -> None:
        """Have the source send the barrier of an epoch behind its batch, unless it has ended."""
        if self._source is not None:
            self._source.begin_epoch(epoch, is_last)

    def commit(self) -> tuple[dict[str, Any], TaskStatistics]:
        """Make all of the sinks' output final; each sink's result by operator, the last figures."""
        results = self.chain.sinks.commit()
        if self._source is not None:
            self._source.commit()
        return results, self._figures.has_committed()

    def commit_epoch(self, epoch: int, failing: FailureContext) -> None:
        """Make the sinks' output final up to this epoch, as soon as their storage answers.

        Behind that, the source is told.
        """
        while True:
            try:
                self.chain.sinks.commit(epoch, failing)
                break
            except StorageError as error:
                if self._snapshots is None or not error.is_away:
                    raise
                self._snapshots.fail(epoch, error)
            self._wait_again()
        if self._source is not None:
            self._source.commit(epoch)

    def abort(self) -> None:
        """Drop the sinks' output that is not final; idempotent; from any thread."""
        self.chain.abort()
        if self._source is not None:
            self._source.abort()

    def end_source(self) -> None:
        """Let the source end after its next batch, as if it had no more; idempotent."""
        if self._source is not None:
            self._source.end()
            self._services.end_source()

    def cancel(self) -> None:
        """Make `run` raise Cancelled at its next batch; idempotent."""
        self._cancelled.set()
        if self._source is not None:
            self._source.cancel()
        self._network.cancel()
        self._services.cancel()
        self.chain.cancel()

    def wake(self) -> None:
        """Call timers that are due, if the task waits for an element; from any thread."""
        if not self.chain.has_timers:
            return
        if self._source is None:
            self._network.wake()
        else:
            self._source.wake()

    def statistics(self) -> TaskStatistics:
        """The task's statistics up to now."""
        return self._figures.statistics()

    def _check_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise Cancelled("the task was cancelled")

    def _run_from_gate(self, receive: Receive) -> None:
        process, deliver, figures = self.chain.process, self._deliver, self._figures
        element = receive()
        figures.window.begin()
        while element is not None:
            if type(element) is Control:
                self._pass_on(element)
            else:
                out = process(element)
                markers = element.markers
                try:
                    deliver(out, markers)
                except BaseException:
                    self.chain.fails_behind()
                    raise
                del out  # the next batch reuses this memory, which is in the caches
                figures.received += len(element)
                if markers:
                    figures.window.pass_marker()
            element = receive()

    def _pass_on(self, control: Control, stretch: Stretch | None = None) -> None:
        """Pass a control to the operators and, behind their batches, to all tasks downstream.

        Watermarks and idleness go to this stretch of the chain, and on if it is the last.
        """
        if control.time_us is not None:
            self._emit(self.chain.advance(control.time_us, stretch))
        elif control.epoch is None:
            self.chain.idle(stretch)
        elif self._snapshots is not None:
            self._write_snapshot(control.epoch)
        if control.epoch is not None or self.chain.reaches_outputs(stretch):
            self._outputs.send_control(control)
        self._tell_time()

    def _then_tell_time(self, deliver: Deliver, makers: list[BatchFunction]) -> Deliver:
        """As `deliver`, with the watermarks that these operators have made behind it."""

        def deliver_and_tell(out: Any, stamps: list[int] | None = None) -> None:
            deliver(out, stamps)
            for maker in makers:
                if maker.watermark is not None:
                    self._tell_time()

        return deliver_and_tell

    def _fire(self, given: Iterator[Any]) -> None:
        """Deliver the batches and watermarks of timers."""
        self._emit(given)
        self._tell_time()

    def _tell_time(self) -> None:
        for stretch, watermark in self.chain.made_watermarks():
            self._pass_on(control_of(watermark), stretch)

    def _run_beside(self, side: SideInput, receive: Receive) -> None:
        """As `_run_from_gate`, with a side input, whose records are not counted."""
        to_list = decoding(Batch.to_list, self._services)

        def take(batch: Batch) -> None:
            self._fire(self.chain.take_side(to_list(batch)))

        try:
            self._run_from_gate(side.around(receive, take))
        except Cancelled:
            if side.error is not None:
                raise side.error from None
            raise
        if side.is_awaited:
            return
        threading.Thread(
            target=drop_rest_beside,
            args=(self._network, self._services),
            name="oka-side",
            daemon=True,
        ).start()


def _rescuers(
    operators: Sequence[LogicalOperator],
    side_outputs: Mapping[str, Mapping[str, Deliver]],
    failing: FailureContext,
    services: Services,
) -> dict[str, Rescuer]:
    """The rescuers of operators whose failures do not fail the job, by name."""
    found: dict[str, Rescuer] = {}
    for operator, following in zip_longest(operators, operators[1:]):
        if operator.operator.properties.on_error != "fail":
            emit = side_outputs.get(operator.name, {}).get(operator.operator.properties.errors)
            found[operator.name] = Rescuer(emit, failing)
        elif services.has_rescue:
            check = None if following is None else following.operator.properties.check
            found[operator.name] = ServiceRescuer(services, failing, check)
    return found


_AGAIN_SECONDS = 1.0
"""Seconds between two tries of sinks whose storage does not answer."""
