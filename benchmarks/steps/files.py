"""Parquet files read by Oka and by PyArrow alone, in turn: `python -m benchmarks.steps.files`.

Each line is the median of several rounds: seconds, and CPU seconds of this process. `--s3` has the
files in `oka s3 serve` on this machine, beside PyArrow's own client of S3. Whole jobs, a group-by
among them, are works of `oka bench connectors`.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from engine.graph.context import TaskContext
from engine.programs.s3_server import S3Server
from operators.sources import ParquetFiles


def main() -> None:
    """Make files, and print a line for each way to read them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of each file")
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--columns", help="names, with commas between them; all if missing")
    parser.add_argument("--s3", action="store_true")
    arguments = parser.parse_args()
    columns = arguments.columns.split(",") if arguments.columns else None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "bucket" / "files"
        _write(folder, arguments.files, arguments.rows)
        if arguments.s3:
            with S3Server(name, access_key=_KEY, secret_key=_SECRET) as server:
                os.environ.update(
                    AWS_ACCESS_KEY_ID=_KEY,
                    AWS_SECRET_ACCESS_KEY=_SECRET,
                    AWS_ENDPOINT_URL_S3=server.endpoint,
                )
                _compare(_reading("s3://bucket/files", columns, server), arguments.rounds)
        else:
            _compare(_reading(str(folder), columns, None), arguments.rounds)


def _write(folder: Path, files: int, rows: int) -> None:
    folder.mkdir(parents=True)
    drawn = np.random.default_rng(1)
    cities = pa.array([f"city {number}" for number in range(1000)])
    for number in range(files):
        table = pa.table(
            {
                "id": np.arange(rows) + number * rows,
                "city": cities.take(pa.array(drawn.integers(0, 1000, rows))),
                "amount": drawn.random(rows) * 100,
                "count": drawn.integers(0, 100, rows),
                "at": pa.array(drawn.integers(0, 10**15, rows), pa.timestamp("us")),
                "note": pa.array(drawn.integers(0, 10**12, rows)).cast(pa.string()),
            }
        )
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=1 << 18)


def _reading(
    where: str, columns: list[str] | None, server: S3Server | None
) -> dict[str, Callable[[], int]]:
    def ours() -> int:
        files = ParquetFiles(where, columns=columns)
        files.validate()
        reader = files.open(TaskContext("task", 0, 1, _BATCH_ROWS, "job"))
        rows = 0
        for name in reader.partitions():
            partition = reader.open_partition(name, None)
            while (batch := partition.poll(_BATCH_ROWS)) is not None:
                rows += len(batch)
            partition.close()
        return rows

    def alone() -> int:
        import pyarrow.fs as fs  # here, since it takes a while

        if server is None:
            system, folder = fs.LocalFileSystem(), where
        else:
            system = fs.S3FileSystem(
                access_key=_KEY,
                secret_key=_SECRET,
                endpoint_override=server.endpoint,
                region="us-east-1",
            )
            folder = where.removeprefix("s3://")
        rows = 0
        for info in system.get_file_info(fs.FileSelector(folder)):
            file = pq.ParquetFile(system.open_input_file(info.path), pre_buffer=True)
            for batch in file.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False):
                rows += len(batch)
        return rows

    return {"oka": ours, "pyarrow": alone}


def _compare(ways: dict[str, Callable[[], int]], rounds: int) -> None:
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    rows: dict[str, int] = {}
    for _ in range(rounds):
        for name, way in ways.items():
            began, cpu = time.perf_counter(), time.process_time()
            rows[name] = way()
            seconds[name].append((time.perf_counter() - began, time.process_time() - cpu))
    if len(set(rows.values())) > 1:
        raise SystemExit(f"the ways found different numbers of rows: {rows}")
    medians = {
        name: [statistics.median(each) for each in zip(*found, strict=True)]
        for name, found in seconds.items()
    }
    wall, cpu = medians["oka"]
    print(f"{'':10}{'seconds':>10}{'CPU':>10}{'oka: speed':>12}{'per CPU':>10}")
    for name, (each_wall, each_cpu) in medians.items():
        ratios = f"{each_wall / wall:>12.2f}{each_cpu / cpu:>10.2f}"
        print(f"{name:10}{each_wall:>10.3f}{each_cpu:>10.3f}{ratios}")


_KEY, _SECRET = "benchmark", "of files that anybody may read"
_BATCH_ROWS = 1 << 16


if __name__ == "__main__":
    main()
