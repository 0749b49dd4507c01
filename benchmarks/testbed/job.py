"""One word count between the hosts of a testbed, measured.

`measure` runs this file as the driver, on the head's host: `python -m benchmarks.testbed.job
SETTINGS`. Settings and output are JSON.
"""

from __future__ import annotations

import base64
import json
import sys
from dataclasses import dataclass
from typing import Any, cast

import engine
from benchmarks.measurement import Case, Measurement, Run
from benchmarks.testbed.cluster import Cluster
from benchmarks.testbed.driver import drive
from engine.errors import StartError
from pipelines.word_count import Api, random_word_count


def measure(cluster: Cluster, case: Case, run: Run) -> Measurement:
    """Run the case once, and count the bytes on the link of each host.

    Raises StartError if the run failed, its counts are not exact, or its words did not cross.
    """
    settings = Settings(
        cast(Api, case.api),
        case.payload_bytes,
        case.batch_size,
        case.parallelism,
        case.encryption,
        run.seconds,
        run.warmup,
        run.rate,
        run.seed,
    )
    before = cluster.network.counters()
    answer = drive(
        cluster,
        "benchmarks.testbed.job",
        settings,
        run.seconds + run.warmup + _LONGEST_OVERHEAD_SECONDS,
    )
    after = cluster.network.counters()
    links = {str(number): after[number] - before[number] for number in before}
    emitted, counted = answer["emitted"], answer["counted"]
    if emitted != counted:
        raise StartError(f"the source emitted {emitted} words, the sink counted {counted}")
    crossed, least = sum(link.sent_bytes for link in links.values()), counted * case.payload_bytes
    if crossed < least:
        raise StartError(
            f"only {crossed:,} bytes crossed the switch, expected at least those of the words, "
            f"{least:,}: they took another way"
        )
    return Measurement(
        throughput=answer["throughput"],
        source_throughput=answer["source_throughput"],
        cpu_seconds_per_million=answer["cpu_seconds"] / counted * 1e6,
        histogram=base64.b64decode(answer["histogram"]),
        records=counted,
        links=links,
    )


@dataclass(frozen=True)
class Settings:
    """The word count: `parallelism` source tasks and as many sink tasks, on different nodes."""

    api: Api
    payload_bytes: int
    batch_size: int
    parallelism: int
    encryption: bool
    seconds: float
    warmup_seconds: float
    rate: float | None = None
    seed: int = 0


def main() -> None:
    """Run the word count of the settings and print its result."""
    settings = Settings(**json.loads(sys.argv[1]))
    try:
        answer = _run(settings)
    except engine.EngineError as error:
        answer = {"error": str(error)}
    print(json.dumps(answer))


def _run(settings: Settings) -> dict[str, Any]:
    result = engine.execute(
        random_word_count(
            settings.seconds + settings.warmup_seconds,
            settings.payload_bytes,
            rate=settings.rate,
            seed=settings.seed,
            api=settings.api,
        ),
        name=f"word count {settings.api}",
        runtime="ray",
        placement="operator_first",
        strict_placement=True,
        parallelism=settings.parallelism,
        batch_size=settings.batch_size,
        encryption=settings.encryption,
        warmup_seconds=settings.warmup_seconds,
        progress="none",
    )
    statistics = result.statistics
    return {
        "throughput": statistics.input_throughput,
        "source_throughput": statistics.source_throughput,
        "cpu_seconds": statistics.cpu_seconds,
        "histogram": base64.b64encode(
            statistics.histogram if result.latency.count else b""
        ).decode(),
        "emitted": statistics.source_records,
        "counted": sum(result.output.values()),
    }


_LONGEST_OVERHEAD_SECONDS = 90.0
"""Joining Ray, starting and connecting the workers, and ending."""

if __name__ == "__main__":
    main()
