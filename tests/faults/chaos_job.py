"""The job of the fault sweep: records through two tasks each, over channels, into files and a dict.

Arguments: the folder for files, runtime, transport. Beside the first it writes `job`, a file with
the path of the job's folder. It prints the counts as JSON when the job has
succeeded, and exits with 1 when it has failed with an error of the engine.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import engine
from operators import source
from operators.sinks import Counts, JsonLines
from operators.sources import Function
from tests import jobfolders

KEYS, RECORDS = 100, 30_000


def numbers(context: Any) -> Iterator[int]:
    """This task's share of the numbers."""
    return iter(range(context.index, RECORDS, context.parallelism))


def main() -> None:
    """Run the job."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder, runtime, transport = sys.argv[1:]
    jobfolders.announce(Path(folder).with_name("job").open("w"))
    keyed = source(Function(numbers)).map(lambda n: (n % KEYS, n)).key_by(0)
    counts = keyed.reduce(lambda a, b: (a[0], a[1] + b[1])).sink(Counts())
    files = keyed.map_batches(lambda batch: batch).sink(JsonLines(folder))
    try:
        result = engine.execute(
            [counts, files],
            runtime=runtime,
            transport=transport,
            parallelism=2,
            batch_size=50,
            reconnect_timeout_seconds=3.0,
        )
    except engine.EngineError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    print(json.dumps(sorted(result.outputs["counts"].items())))


if __name__ == "__main__":
    main()
