"""PyArrow alone: Parquet files written and read, as a careful person does without Oka.

Its threads are as many as Oka's tasks. The first argument has the settings in JSON.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as fs
import pyarrow.parquet as pq
from clocks import Clocks

GROUP = 1 << 17
"""Rows of a row group, as Oka's sink has it."""


def main() -> None:
    """Do the work, and write its time, CPU time and number of rows."""
    settings = json.loads(sys.argv[1])
    pa.set_cpu_count(settings["parallelism"])
    work = {"write": write, "read": read}[settings["work"]]
    clocks = Clocks(settings["result"])
    clocks.write(work(settings))


def read(settings: dict[str, Any]) -> int:
    """Count the rows of all batches."""
    filesystem, path = place(settings["read"])
    files = ds.dataset(path, filesystem=filesystem, format="parquet")
    batches = files.to_batches(batch_size=settings["batch_size"])
    return sum(batch.num_rows for batch in batches)


def write(settings: dict[str, Any]) -> int:
    """Write batches of a mapped file, a row group at a time."""
    filesystem, folder = place(settings["write"])
    if isinstance(filesystem, fs.LocalFileSystem):
        filesystem.create_dir(folder)
    rows = 0
    with pa.memory_map(settings["source"]) as mapped:
        file = pa.ipc.open_file(mapped)
        with pq.ParquetWriter(f"{folder}/part.parquet", file.schema, filesystem=filesystem) as out:
            waiting: list[pa.RecordBatch] = []
            for at in range(file.num_record_batches):
                waiting.append(file.get_batch(at))
                rows += waiting[-1].num_rows
                if sum(batch.num_rows for batch in waiting) >= GROUP:
                    out.write_table(pa.Table.from_batches(waiting))
                    waiting = []
            if waiting:
                out.write_table(pa.Table.from_batches(waiting))
    if isinstance(filesystem, fs.LocalFileSystem):  # as Oka does before the file has its name
        descriptor = os.open(f"{folder}/part.parquet", os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
    return rows


def place(url: str) -> tuple[fs.FileSystem, str]:
    """The file system and path of a folder or of s3://bucket/prefix."""
    if not url.startswith("s3://"):
        return fs.LocalFileSystem(), url
    scheme, _, host = os.environ["AWS_ENDPOINT_URL"].partition("://")
    return fs.S3FileSystem(endpoint_override=host, scheme=scheme, region="us-east-1"), url[5:]


if __name__ == "__main__":
    main()
