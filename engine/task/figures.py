"""A task's counts and measurements, for the job's statistics and for its snapshots."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from engine.checkpoint import SnapshotEntry, TaskSnapshot
from engine.deployment.description import OperatorStatistics, TaskDescription, TaskStatistics
from engine.deployment.services import Services
from engine.graph.sink import SinkOperator
from engine.graph.source import SourceOperator
from engine.graph.watermark import START_OF_TIME
from engine.metric.merged import together
from engine.metric.metrics import METRICS
from engine.network import LatencyHistogram, Network, NetworkStatistics
from engine.system import IS_LINUX, most_memory
from engine.task.chain import Chain
from engine.task.clock import Clock
from engine.task.snapshots import Snapshots
from engine.task.source.loop import SourceLoop
from engine.task.window import SteadyWindow

Counts = Mapping[str, Mapping[str, Any]]
"""See `TaskSnapshot.counts`."""


class Figures:
    """All figures of a task. Any thread may read them; only the task's thread changes them."""

    def __init__(
        self,
        description: TaskDescription,
        chain: Chain,
        source: SourceLoop | None,
        network: Network,
        services: Services,
        clock: Clock,
        snapshots: Snapshots | None = None,
    ) -> None:
        self._description = description
        self._chain = chain
        self._source = source
        self._network = network
        self._services = services
        self._clock = clock
        self._snapshots = snapshots
        self.received = 0
        """Records that came through the input gate."""
        self._is_sink = isinstance(description.operators[-1].operator, SinkOperator)
        self._latency = LatencyHistogram()
        self.window = SteadyWindow(
            description.config.warmup_seconds, clock, self._records, self._restart_latency
        )
        self._thread: ThreadTime | None = None
        self._started: _Moment | None = None
        self._emitted: _Moment | None = None
        self._ended: _Moment | None = None
        self._last: TaskStatistics | None = None
        self._counted = OperatorCounts()
        self._longest_pause = 0.0
        """The longest time, in seconds, that a snapshot kept the task."""

    def start(self) -> None:
        """Start the clocks; in the thread of the task."""
        self._thread = ThreadTime()
        self._started = self._now()

    def go_on(self, kept: Sequence[TaskSnapshot]) -> None:
        """Continue the counts of these tasks."""
        self._counted = OperatorCounts.of(kept, self._description)

    def has_paused(self, seconds: float) -> None:
        """Note the time that a snapshot has kept the task."""
        self._longest_pause = max(self._longest_pause, seconds)

    def has_emitted(self) -> None:
        """Note that the last record has left the chain."""
        self.window.end()
        self._emitted = self._now()

    def end(self) -> TaskStatistics:
        """The last figures, which no longer change."""
        self._ended = self._now()
        self._last = self.statistics()
        return self._last

    def has_committed(self) -> TaskStatistics:
        """As `end` has given, with the time since, in which the sinks have made all final."""
        assert self._last is not None
        assert self._started is not None
        assert self._ended is not None
        now = self._now()
        self._last = replace(
            self._last,
            final_seconds=(now.ns - self._started.ns) / 1e9,
            cpu_seconds=self._last.cpu_seconds + now.process_seconds - self._ended.process_seconds,
        )
        return self._last

    def observe(self, _out: Any, stamps: list[int] | None = None) -> None:
        """Count markers that have reached the end."""
        if stamps:
            self._latency.record_many(stamps, self._clock.now_ns())

    def _restart_latency(self) -> None:
        self._latency = LatencyHistogram()

    def statistics(self) -> TaskStatistics:
        """The task's statistics up to now."""
        if self._last is not None:
            return self._last
        network = self._network.statistics()
        now = self._now()
        started, ended = self._started or now, self._ended or now
        emitted = self._emitted or ended
        elapsed = (ended.ns - started.ns) / 1e9
        idle = network.idle_seconds + (self._source.waited_seconds if self._source else 0.0)
        blocked = network.blocked_seconds + (ended.ns - emitted.ns) / 1e9
        inside = max(0.0, elapsed - idle - blocked)
        at_work = inside if emitted.at_work is None else emitted.at_work
        waiting = max(0.0, inside - at_work)
        return TaskStatistics(
            vertex=self._description.vertex,
            index=self._description.index,
            operators=tuple(self._with_keys(self._operators(self._records_in()))),
            elapsed_seconds=elapsed,
            busy_seconds=inside - waiting,
            waiting_seconds=waiting,
            idle_seconds=idle,
            blocked_seconds=blocked,
            source_window=self.window.bounds() if self._source else None,
            sink_window=self.window.bounds() if self._is_sink else None,
            latency=self._latency.to_bytes() if self._is_sink else None,
            **self._counted.with_metrics(
                _measured(
                    network,
                    self._services,
                    self._chain,
                    ended.process_seconds - started.process_seconds,
                )
            ),
            lag_records=0 if self._source is None else self._source.lag,
            checkpoint_pause_ms=1e3 * self._longest_pause,
            checkpointed_bytes=0 if (kept := self._kept) is None else kept.bytes,
            parallelism=self._description.parallelism,
        )

    def counts(self) -> Counts:
        """The task's counts, between two batches."""
        records = self.received if self._source is None else self._source.emitted
        began = 0.0 if self._started is None else self._started.process_seconds
        metrics = together([{"cpu_seconds": time.process_time() - began}, *self._chain.metrics()])
        return _counts_of(
            self._description,
            self._operators(records),
            self._counted.with_metrics(metrics),
        )

    def _now(self) -> _Moment:
        at_work = self._thread.seconds_at_work() if self._thread is not None else None
        return _Moment(self._clock.now_ns(), time.process_time(), at_work)

    def _operators(self, records: int) -> list[OperatorStatistics]:
        """The operators' counts, with this many records into the first."""
        first = self._description.operators[0]
        found = self._chain.statistics(records)
        if isinstance(first.operator, SourceOperator):
            if first.operator.followed_by is None:
                found = [OperatorStatistics(first.name, 0, records), *found]
            elif found:
                found[0] = replace(found[0], records_in=0)
        unopened = self._description.operators[len(found) :]
        found += [OperatorStatistics(operator.name, 0, 0) for operator in unopened]
        return self._counted.with_operators(found)

    @property
    def _kept(self) -> SnapshotEntry | None:
        """What the task's last snapshot holds."""
        return None if self._snapshots is None else self._snapshots.last

    def _with_keys(self, operators: list[OperatorStatistics]) -> Iterator[OperatorStatistics]:
        """The operators' statistics, with the keys in the task's last snapshot."""
        keys = {} if (kept := self._kept) is None else kept.keys
        for operator, told in zip(self._description.operators, operators, strict=True):
            if number := keys.get(operator.identity):
                assert self._snapshots is not None
                oldest_ms = 1e3 * self._snapshots.oldest_seconds(operator.identity)
                told = replace(told, checkpointed_keys=number, oldest_key_ms=oldest_ms)
            yield told

    def _records(self) -> tuple[int, int]:
        """The records into the task, or out of its source, and those out of its last operator."""
        records = self._records_in()
        return records, self._operators(records)[-1].records_out

    def _records_in(self) -> int:
        return self.received if self._source is None else self._source.records


@dataclass(frozen=True)
class OperatorCounts:
    """Counts of a task's operators, in their order, and its metrics that go on.

    They hold up to the restored checkpoint. Records behind the checkpoint come again, and count
    then, so each record counts once. A job with failures has the same counts as one without.
    """

    operators: tuple[OperatorStatistics, ...] = ()
    metrics: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, kept: Sequence[TaskSnapshot], description: TaskDescription) -> OperatorCounts:
        """The counts of the tasks that this one replaces."""
        index, parallelism = description.index, description.parallelism
        ours = [each for each in kept if each.index % parallelism == index]
        operators = []
        for operator in description.operators:
            total = OperatorStatistics(operator.name, 0, 0)
            for each in ours:
                if operator.identity in each.counts:
                    total += OperatorStatistics(operator.name, **each.counts[operator.identity])
            operators.append(total)
        first = description.operators[0].identity
        alike = [each.counts.get("", {}) for each in ours if each.chain[:1] == (first,)]
        names = {name for counts in alike for name in counts if name in METRICS}
        metrics = {name: sum(counts.get(name, 0) for counts in alike) for name in names}
        return cls(tuple(operators), metrics)

    def with_operators(self, since: list[OperatorStatistics]) -> list[OperatorStatistics]:
        """The counts, with the operators' counts since."""
        if not self.operators:
            return since
        return [now + before for now, before in zip(since, self.operators, strict=True)]

    def with_metrics(self, since: Mapping[str, Any]) -> dict[str, Any]:
        """The metrics, with the task's measurements since."""
        before = self.metrics
        return {
            name: value + before[name] if name in before else value for name, value in since.items()
        }


class ThreadTime:
    """A thread's time at work, by the kernel's count.

    It counts for the thread that makes it, from then on; any thread may read it. A thread is at
    work while it has a core, and while it waits for a core: other processes on the machine make it
    slower, not idle. In the remaining time it slept, or waited for something else.
    """

    def __init__(self) -> None:
        self._schedule = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        self._clock = time.pthread_getcpuclockid(threading.get_ident()) if IS_LINUX else None
        self._start = self._now()

    def seconds_at_work(self) -> float | None:
        """Seconds since the start; None if the kernel does not tell or the thread has ended."""
        now = self._now()
        return None if now is None or self._start is None else now - self._start

    def _now(self) -> float | None:
        if self._clock is None:
            return None
        try:
            # Nanoseconds on a core (up to the last tick), nanoseconds ready without one, and the
            # number of turns.
            _, ready_ns, turns = self._schedule.read_bytes().split()
            on_core = time.clock_gettime(self._clock)
        except (OSError, ValueError):
            return None
        return on_core + int(ready_ns) / 1e9 if int(turns) else None


class _Moment(NamedTuple):
    """The clocks of a task, read together."""

    ns: int
    process_seconds: float
    """CPU time of the process."""
    at_work: float | None
    """The time of the task's thread, since the task began."""


def _counts_of(
    description: TaskDescription,
    operators: Sequence[OperatorStatistics],
    metrics: Mapping[str, Any],
) -> Counts:
    """The counts of a task, for its snapshot."""
    found: dict[str, dict[str, Any]] = {}
    for operator, told in zip(description.operators, operators, strict=True):
        found[operator.identity] = {
            name: value for name, value in asdict(told).items() if value and name != "name"
        } | {"records_in": told.records_in, "records_out": told.records_out}
    found[""] = {name: value for name, value in metrics.items() if METRICS[name].goes_on and value}
    return found


def _measured(
    network: NetworkStatistics, services: Services, chain: Chain, cpu_seconds: float
) -> dict[str, Any]:
    """The metrics of a task up to now; `cpu_seconds` is the CPU time that it has taken."""
    process = {
        "cpu_seconds": cpu_seconds,
        "memory_bytes": most_memory(),
    }
    return together(
        [process, _of_network(network), _of_time(chain), *services.metrics(), *chain.metrics()]
    )


def _of_time(chain: Chain) -> Mapping[str, Any]:
    watermark = chain.watermark
    behind = 0.0 if watermark == START_OF_TIME else time.time() * 1e3 - watermark / 1e3
    return {"watermark_lag_ms": max(0.0, behind)}


def _of_network(network: NetworkStatistics) -> Mapping[str, Any]:
    inputs, outputs = network.inputs, network.outputs
    interruptions = (output.longest_interruption_seconds for output in outputs)
    uncertainties = (output.clock_uncertainty_seconds for output in outputs)
    return {
        "backlog_bytes": network.backlog_bytes,
        "input_backlog_bytes": sum(each.backlog_bytes for each in inputs),
        "sent_bytes": sum(output.bytes for output in outputs),
        "received_bytes": sum(each.bytes for each in inputs),
        "reconnects": sum(output.reconnects for output in outputs),
        "retransmitted_frames": sum(output.retransmitted_frames for output in outputs),
        "longest_interruption_ms": 1e3 * max(interruptions, default=0.0),
        "clock_uncertainty_us": 1e6 * max(uncertainties, default=0.0),
        "refused_connections": network.refused_connections,
        "dropped_messages": network.dropped_messages,
        "checkpoint_alignment_ms": 1e3 * network.longest_barrier_wait_seconds,
    }
