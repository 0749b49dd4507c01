"""Works with Parquet files, on the disk and in S3: what they share, and writing."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from benchmarks.peers.flink import Found
from benchmarks.peers.peer import Peer
from benchmarks.works import BATCH, Work, WorkCase
from engine.programs.s3_server import S3Server
from operators import source
from operators.sinks import ParquetSink
from operators.sources import Function

if TYPE_CHECKING:
    import pyarrow as pa

PYARROW = Peer(
    *("pyarrow", "alone", "columnar", None, "files/files_pyarrow.py"),
    extra="arrow",
    modules=("pyarrow",),
)
BUCKET, USERS, FILES = "oka-bench", 10_000, 4


class FileWork(Work):
    """The common part: files of orders, and an S3 server if the place is one."""

    record_bytes = 75
    peers: ClassVar[tuple[Peer, ...]] = (PYARROW,)
    in_s3 = False

    @contextmanager
    def prepared(self, records: int, folder: Path) -> Iterator[None]:
        """Orders as Parquet files in `orders`, and as columns in `orders.arrow`."""
        self._root = folder / "root"
        self._where = self._root / BUCKET
        write_orders(records, folder / "orders.arrow", self._where / "orders")
        if not self.in_s3:
            yield
            return
        keys = {"AWS_ACCESS_KEY_ID": "oka-bench", "AWS_SECRET_ACCESS_KEY": secrets.token_hex(20)}
        before = dict(os.environ)
        with S3Server(
            self._root,
            access_key=keys["AWS_ACCESS_KEY_ID"],
            secret_key=keys["AWS_SECRET_ACCESS_KEY"],
        ) as server:
            try:
                os.environ.pop("AWS_SESSION_TOKEN", None)
                os.environ.update({**keys, "AWS_ENDPOINT_URL": server.endpoint})
                yield
            finally:
                os.environ.clear()
                os.environ.update(before)

    def url(self, name: str) -> str:
        """The place of this name, as Oka and the peers take it."""
        return f"s3://{BUCKET}/{name}" if self.in_s3 else str(self._where / name)

    def run(self, case: WorkCase) -> Found:
        """Do it once, without the files of a run before."""
        shutil.rmtree(self._where / "out", ignore_errors=True)
        return super().run(case)

    def peer_settings(self, case: WorkCase) -> dict[str, Any]:
        """The work, the places and the sizes."""
        return {
            "work": self.work,
            "system": case.system,
            "source": str(self._root.parent / "orders.arrow"),
            "read": self.url("orders"),
            "write": self.url("out"),
            "batch_size": case.batch_size,
            "parallelism": case.parallelism,
        }

    work = ""
    """What the programs of peers call it."""


class ParquetWrite(FileWork):
    """Columns from memory into a Parquet file for each task."""

    name, work = "parquet-write", "write"

    def pipeline(self, case: WorkCase) -> Any:
        """Batches of a mapped file, divided among the tasks."""
        file, tasks = self._root.parent / "orders.arrow", case.parallelism
        batches = source(Function(lambda context: mapped(file, context.index, tasks)))
        return batches.sink(ParquetSink(self.url("out")))


class ParquetWriteS3(ParquetWrite):
    """The same to a server of S3 on this machine."""

    name, in_s3 = "parquet-write-s3", True


def write_orders(records: int, columns: Path, folder: Path) -> None:
    """Write the same rows as an Arrow file and as some Parquet files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    each = -(-records // FILES)
    with pa.ipc.new_file(columns, orders(0, 1).schema) as file:
        for number, start in enumerate(range(0, records, each)):
            parts = [
                orders(at, min(BATCH, start + each - at, records - at))
                for at in range(start, min(start + each, records), BATCH)
            ]
            for part in parts:
                file.write_batch(part)
            table = pa.Table.from_batches(parts)
            pq.write_table(table, folder / f"{number}.parquet", row_group_size=1 << 17)


def orders(start: int, count: int) -> pa.RecordBatch:
    """Orders from this number on; each user has one among the first ones."""
    import numpy as np
    import pyarrow as pa

    chance = np.random.default_rng(start)
    number = np.arange(start, start + count)
    countries = pa.array(["CH", "DE", "FR", "IT", "AT"])
    return pa.record_batch(
        {
            "order": number,
            "user": np.where(number < USERS, number, chance.integers(0, USERS, count)),
            "amount": chance.random(count).round(2) * 1000,
            "at": pa.array(1_764_000_000_000_000 + number * 1000, pa.timestamp("us")),
            "country": countries.take(pa.array(chance.integers(0, 5, count))),
            "note": pa.array([f"order {n:x} of the day" for n in chance.integers(0, 2**40, count)]),
        }
    )


def mapped(file: Path, index: int, tasks: int) -> Iterator[pa.RecordBatch]:
    """Each task's share of the batches of an Arrow file."""
    import pyarrow as pa

    with pa.memory_map(str(file)) as memory:
        reader = pa.ipc.open_file(memory)
        for at in range(index, reader.num_record_batches, tasks):
            yield reader.get_batch(at)


WRITES = (ParquetWrite(), ParquetWriteS3())
