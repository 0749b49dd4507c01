"""Spark Structured Streaming in one JVM: micro-batches, with counts in its state store.

The source is Spark's own `rate-micro-batch`, whose rows have the values 0, 1, 2, …. A pseudorandom
formula in the JVM gives the word of a value. The source's offset is the number of emitted words,
and the formula gives the number of each word. A batch is a number of words, not a time, and begins
as soon as the one before has ended.

A batch's counts go to a Python function on the driver (`foreachBatch`, output mode `update`). Its
words have arrived when this function has collected them. The window of the throughput begins and
ends with a batch. The run's length begins at the end of the first batch, which takes long because
Spark plans and compiles. The batch in which the time ends is the last one; the next is stopped.

- `native`: `groupBy(word).count()`.
- `python_udf`, `pandas_udf`: `groupBy(word).sum(ones(word))`, where `ones` is Python, called for
  each word or for a pandas.Series of them.

Parallelism p is p cores (`local[p]`), p partitions of the source and p of the shuffle; the stages
before and after the shuffle take turns on them. There are no latencies, since a row of this source
has no due time, and words cannot be offered at a rate.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable

import pandas as pd
from program import Settings, Window, dictionary, mark, write
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import LongType
from spark_words import emitted_counts, index_of_value


def main() -> None:
    """Run the query of the settings' api until a batch ends after the run's time."""
    settings = Settings.of_arguments()
    session = start_session(settings)
    counted = count_words(words_of(session, settings), settings.api)
    sink = Sink(settings)
    mark(settings, "started-0")
    query = (
        counted.writeStream.outputMode("update")
        .option("checkpointLocation", f"{settings.folder}/checkpoint")
        .foreachBatch(sink.batch)
        .start()
    )
    while not sink.done.wait(_POLL_SECONDS):
        if query.exception() is not None:
            raise RuntimeError(str(query.exception()))
    emitted = emitted_until(query, sink.last_batch)
    query.stop()
    words = dictionary(settings)
    counts = dict(zip(words, emitted_counts(emitted, len(words)), strict=True))
    for index in range(settings.parallelism):
        content = {"counts": counts if index == 0 else {}}
        write(settings, f"source-{index}.json", content)
    session.stop()


def start_session(settings: Settings) -> SparkSession:
    """Spark in this process's JVM; all its files are in the folder of the run."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    options = f"-Djava.io.tmpdir={settings.folder} -XX:+UseParallelGC -XX:-UsePerfData"
    builder = SparkSession.builder.master(f"local[{settings.parallelism}]").appName("oka-peer")
    for key, value in {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": options,
        "spark.local.dir": settings.folder,
        "spark.sql.warehouse.dir": f"{settings.folder}/warehouse",
        "spark.sql.shuffle.partitions": settings.parallelism,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def words_of(session: SparkSession, settings: Settings) -> DataFrame:
    """The unbounded column `word`."""
    values = (
        session.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", BATCH_WORDS[settings.api])
        .option("numPartitions", settings.parallelism)
        .load()
    )
    words = F.array(*[F.lit(word) for word in dictionary(settings)])
    index = index_of_value(F.col("value"), settings.words)
    return values.select(F.get(words, index.cast("int")).alias("word"))


def count_words(words: DataFrame, api: str) -> DataFrame:
    """Running counts in the columns `word` and `counted`."""
    if api == "native":
        return words.groupBy("word").agg(F.count("*").alias("counted"))
    counted = words.select("word", ONES[api]("word").alias("ones"))
    return counted.groupBy("word").agg(F.sum("ones").alias("counted"))


class Sink:
    """Keeps each word's last count, until a batch ends after the run's time."""

    def __init__(self, settings: Settings) -> None:
        self.done = threading.Event()
        self.last_batch = -1
        self._settings = settings
        self._counts: dict[str, int] = {}
        self._window = Window(settings)
        self._end: float | None = None

    def batch(self, counted: DataFrame, batch: int) -> None:
        """Take the counts that a batch has changed."""
        if self.done.is_set():
            return
        measured = self._window.begun
        before = sum(self._counts.values())
        self._counts.update((row.word, row.counted) for row in counted.collect())
        self._window.arrived(sum(self._counts.values()) - before)
        if self._end is None:
            self._end = time.monotonic() + self._settings.seconds
        elif measured and time.monotonic() >= self._end:
            self.last_batch = batch
            self._window.write(self._counts)
            for index in range(1, self._settings.parallelism):
                Window(self._settings, index).write({})
            self.done.set()


def emitted_until(query: StreamingQuery, batch: int) -> int:
    """The number of words that the source had emitted at a batch's end."""
    while True:
        for progress in reversed(query.recentProgress):
            if progress.batchId == batch:
                return int(json.loads(progress.sources[0].endOffset)["offset"])
        time.sleep(_POLL_SECONDS)


def one(_word: str) -> int:
    """The count of one word: 1."""
    return 1


def one_of_each(words: pd.Series) -> pd.Series:
    """A 1 for each word."""
    return pd.Series(1, index=words.index)


ONES: dict[str, Callable[[str], Column]] = {
    "python_udf": F.udf(one, LongType()),
    "pandas_udf": F.pandas_udf(one_of_each, LongType()),
}

# About half a second each on two cores, so that the fixed cost of a batch is small.
BATCH_WORDS = {"native": 3_000_000, "pandas_udf": 700_000, "python_udf": 500_000}
_POLL_SECONDS = 0.05


if __name__ == "__main__":
    main()
