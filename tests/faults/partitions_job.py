"""The job of the kill loop over partitions: files that grow, and new ones, read by 1 to 4 tasks.

Arguments as for `recovery_job`. It reads `in` in the first folder until there is a file `end`
beside it; a job that starts then reads to the end. Each start has another parallelism.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import engine
from operators import Partition, PartitionedSource, Properties, TaskContext, Tumbling, source
from operators.sinks import JsonLines
from tests import jobfolders

WINDOW_MS = 100


class Lines(PartitionedSource[Any]):
    """[partition, number, time] for each line of each file, of which a partition has its number."""

    properties = Properties(rate=3000)

    def __init__(self, folder: Path, *, goes_on: bool) -> None:
        self.folder, self.goes_on = folder, goes_on
        self.discover_seconds = 0.05 if goes_on else None

    def partitions(self) -> list[str]:
        return [path.name for path in self.folder.iterdir()]

    def open_partition(self, name: str, position: Any, context: TaskContext) -> Partition:
        return _Lines(self, name, position or (0, 0))

    def number(self, name: str) -> int:
        return int(name)


class _Lines(Partition):
    """A position is a place in the file, and the number of lines in front of it."""

    def __init__(self, of: Lines, name: str, position: tuple[int, int]) -> None:
        self._of, self._name, self.position = of, name, position
        self._file = (of.folder / name).open("rb")

    position: tuple[int, int] = (0, 0)

    def poll(self, limit: int) -> list[Any] | None:
        place, number = self.position
        self._file.seek(place)
        lines = [line for line in self._file.read(limit).splitlines(True) if line.endswith(b"\n")]
        self.position = place + sum(map(len, lines)), number + len(lines)
        if not lines:
            return [] if self._of.goes_on else None
        partition = int(self._name)
        numbers = range(number, self.position[1])
        return [[partition, n, 10_000 * partition + n] for n in numbers]

    def committed(self, position: tuple[int, int]) -> None:
        (self._of.folder.parent / f"committed-{self._name}").write_text(f"{position[1]}")

    def close(self) -> None:
        self._file.close()


def main() -> None:
    """Run the job, or go on with it."""
    folder, out, checkpoints, runtime, transport = sys.argv[1:]
    jobfolders.announce((Path(folder) / "job").open("a"))
    with (Path(folder) / "starts").open("a+") as starts:
        starts.write(".")
        starts.seek(0)
        parallelism = 1 + len(starts.read()) % 4
    goes_on = not (Path(folder) / "end").exists()
    lines = source(Lines(Path(folder) / "in", goes_on=goes_on))
    rows = lines.with_event_time(2, unit="ms")  # in the tasks of the source
    windows = rows.key_by(0).window(Tumbling(timedelta(milliseconds=WINDOW_MS))).count()
    result = engine.execute(
        [rows.sink(JsonLines(f"{out}/rows")), windows.sink(JsonLines(f"{out}/windows"))],
        runtime=runtime,
        transport=transport,
        parallelism=parallelism,
        batch_size=20,
        checkpoints=checkpoints,
        checkpoint_interval_seconds=0.1,
        resume="latest",
        restarts=100,
        reconnect_timeout_seconds=3.0,
    )
    print(json.dumps({"late": sum(each.late for each in result.statistics.operators)}))


if __name__ == "__main__":
    main()
