"""DuckDB and Polars: the sum of a column for each user, over a folder of Parquet files.

Their threads are as many as Oka's tasks. The first argument has the settings in JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from clocks import Clocks


def main() -> None:
    """Do the work, and write its time, CPU time and number of rows."""
    settings = json.loads(sys.argv[1])
    work = {"duckdb": duckdb, "polars": polars}[settings["system"]](settings)
    clocks = Clocks(settings["result"])
    clocks.write(work())


def duckdb(settings: dict[str, Any]) -> Callable[[], int]:
    """In SQL."""
    import duckdb

    connection = duckdb.connect(config={"threads": settings["parallelism"]})
    query = "SELECT user, sum(amount) FROM read_parquet(?) GROUP BY user"
    files = [f"{settings['read']}/*.parquet"]

    def work() -> int:
        table: Any = connection.execute(query, files).to_arrow_table()
        return len(table)

    return work


def polars(settings: dict[str, Any]) -> Callable[[], int]:
    """As a lazy frame."""
    os.environ["POLARS_MAX_THREADS"] = str(settings["parallelism"])
    import polars as pl

    files = pl.scan_parquet(f"{settings['read']}/*.parquet")
    return lambda: files.group_by("user").agg(pl.col("amount").sum()).collect().height


if __name__ == "__main__":
    main()
