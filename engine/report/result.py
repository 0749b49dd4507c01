"""The result of a job: its statistics, its sinks' output, and the places of its files."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.config import JobConfig
from engine.metric.merged import in_json
from engine.report.provenance import commit, machine, versions
from engine.report.statistics import JobStatistics, Latency


@dataclass(frozen=True)
class SinkFiles:
    """The place of a sink's files."""

    url: str
    """A folder, or s3://bucket/prefix."""
    hosts: tuple[str, ...]
    """The hosts on which the sink's tasks ran, if the folder is theirs. Empty if it is the same
    everywhere."""

    def __str__(self) -> str:
        return f"{self.url} on {', '.join(self.hosts)}" if self.hosts else self.url


@dataclass(frozen=True, repr=False)
class JobResult:
    """The result of a job that has ended. `print(result)` shows a table, as does a notebook."""

    config: JobConfig
    seconds: float
    """From the call to the last worker's end, start and tear-down included."""
    statistics: JobStatistics
    outputs: dict[str, Any]
    """The output of each driver sink, by operator name."""
    files: Mapping[str, SinkFiles] = field(default_factory=dict)
    """The place of each sink's files, by operator name."""

    @property
    def output(self) -> Any:
        """The output of the only driver sink; raises AttributeError if there is none or more."""
        if not self.outputs:
            raise AttributeError(
                "no sink of the job brings anything to the driver, expected one that does\n\n"
                "hint: end the stream with .sink(Collect()) or .sink(Counts())"
            )
        if len(self.outputs) > 1:
            raise AttributeError(
                f"the job has {len(self.outputs)} driver sinks ({', '.join(self.outputs)}), "
                "expected 1\n\nhint: take one from result.outputs"
            )
        return next(iter(self.outputs.values()))

    @property
    def throughput(self) -> float:
        """Records that reached the sinks per second, over the steady window."""
        return self.statistics.throughput

    @property
    def latency(self) -> Latency:
        """From emission to the return of the sink function, in µs."""
        return self.statistics.latency

    @property
    def cpu_seconds_per_million(self) -> float | None:
        """CPU seconds of all workers, user and system, per million records at the sinks.

        None if no record has arrived; for few records it is mostly the cost of starting.
        """
        records = self.statistics.records
        return self.statistics.cpu_seconds / records * 1e6 if records else None

    def to_dict(self) -> dict[str, Any]:
        """The result in the schema `oka.result/1`; units are in the names."""
        statistics = self.statistics
        return {
            "schema": "oka.result/1",
            "config": dataclasses.asdict(self.config),
            "machine": machine(),
            "versions": versions(),
            "commit": commit(),
            "records": statistics.records,
            "source_records": statistics.source_records,
            "seconds": self.seconds,
            "window_seconds": statistics.window_seconds,
            "throughput": statistics.throughput,
            "source_throughput": statistics.source_throughput,
            "input_throughput": statistics.input_throughput,
            "latency_us": dataclasses.asdict(statistics.latency),
            **in_json(statistics),
            "cpu_seconds_per_million": self.cpu_seconds_per_million,
            "operators": [dataclasses.asdict(operator) for operator in statistics.operators],
            "files": {name: dataclasses.asdict(files) for name, files in self.files.items()},
        }

    def __str__(self) -> str:
        from engine.report.tables import (
            result_table,  # rich is only loaded where something is shown
        )

        return result_table(self.config.name, self.seconds, self.statistics, self.files)

    def __repr__(self) -> str:
        from engine.report.tables import result_line

        line = result_line(self.config.name, self.seconds, self.statistics)
        return f"<JobResult of {line}>"

    def _repr_html_(self) -> str:
        from engine.report.tables import result_html

        return result_html(self.config.name, self.seconds, self.statistics, self.files)
