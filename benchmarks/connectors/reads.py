"""Works that read Parquet files: all rows, and a group-by over them."""

from __future__ import annotations

from typing import Any

from benchmarks.connectors.files import USERS, FileWork
from benchmarks.peers.peer import Peer
from benchmarks.works import WorkCase
from operators import Stream, source
from operators.sinks import Collect, Discard
from operators.sources import ParquetFiles

ENGINES = (
    Peer("duckdb", "sql", "columnar", "files", "files/files_group_by.py"),
    Peer("polars", "lazy", "columnar", "files", "files/files_group_by.py"),
)


class ParquetRead(FileWork):
    """All rows of a folder of Parquet files."""

    name, work = "parquet-read", "read"

    def pipeline(self, _case: WorkCase) -> Any:
        """Read, and count."""
        return self.orders().sink(Discard())

    def orders(self, *columns: str) -> Stream[Any]:
        """These columns of the files, or all."""
        return source(ParquetFiles(f"{self.url('orders')}/*.parquet", columns=columns or None))


class ParquetReadS3(ParquetRead):
    """The same from a server of S3 on this machine."""

    name, in_s3 = "parquet-read-s3", True


class GroupBy(ParquetRead):
    """The sum of a column for each of 10,000 users, over a folder of Parquet files."""

    name, work = "parquet-group-by", "group-by"
    peers = ENGINES

    def pipeline(self, _case: WorkCase) -> Any:
        """Group by user."""
        sums = self.orders("user", "amount").key_by("user").sum("amount", emit="final")
        return sums.sink(Collect())

    def expected(self, case: WorkCase) -> int:
        """The number of users."""
        return min(USERS, case.input_records)


READS = (ParquetRead(), ParquetReadS3(), GroupBy())
