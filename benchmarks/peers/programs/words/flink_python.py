"""PyFlink in one JVM, with Python functions in processes of their own or in the JVM's threads.

PyFlink has no source in Python: all its counts begin with the source of `flink_java/` and end with
its sink. So different tasks report emitted and counted words, and both stamps of a latency are of
one clock. Parallelism p is p tasks of each operator.

- `datastream_process`, `datastream_thread`: `map(lambda w: (w, 1)).key_by(...).reduce(...)`, each
  function in Python, in a process beside each task or inside the JVM. Latencies by timestamps,
  which Flink carries through Python.
- `table_python_udf`, `table_pandas_udf`: `SELECT word, SUM(ones(word)) GROUP BY word`, where `ones`
  is Python, called for each word or for a pandas.Series of them; Flink sums in the JVM.
- `sql`: `SELECT word, COUNT(*) GROUP BY word`: no Python beside the JVM once it runs.

Tables have no latencies: a count that stands for many words carries no word's timestamp.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from typing import Any

import pandas as pd
from flink_jar import JAR, java_settings, jvm_options
from program import Settings
from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.datastream.connectors import Sink, Source
from pyflink.java_gateway import get_gateway
from pyflink.table import DataTypes, Schema, StreamTableEnvironment
from pyflink.table.changelog_mode import ChangelogMode
from pyflink.table.udf import udf


def main() -> None:
    """Run the job of the settings' api until its source ends."""
    settings = Settings.of_arguments()
    os.environ["JVM_ARGS"] = " ".join(jvm_options(settings))
    os.environ["FLINK_LOG_DIR"] = settings.folder
    # The interpreter inside the JVM knows the base Python's packages alone.
    os.environ["PYTHONPATH"] += os.pathsep + sysconfig.get_path("purelib")
    environment = StreamExecutionEnvironment.get_execution_environment(configuration(settings))
    environment.add_jars(JAR.as_uri())
    jar = get_gateway().jvm.oka.peers
    words = environment.from_source(
        Source(jar.WordSource(java_settings(settings))),
        WatermarkStrategy.no_watermarks(),
        "words",
        Types.STRING(),
    )
    if settings.api.startswith("datastream"):
        counted = count_stream(words)
        sink = jar.CountSink.ofTuples(java_settings(settings))
    else:
        counted = count_table(environment, words, settings.api)
        sink = jar.CountSink.ofRows(java_settings(settings))
    counted.sink_to(Sink(sink))
    environment.execute()


def configuration(settings: Settings) -> Configuration:
    """Flink's configuration of a run."""
    result = Configuration()
    mode = "thread" if settings.api == "datastream_thread" else "process"
    bundle = BUNDLE_WORDS["datastream" if settings.api.startswith("datastream") else "table"]
    for key, value in {
        **_CONFIGURATION,
        "parallelism.default": str(settings.parallelism),
        "python.execution-mode": mode,
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
        "python.fn-execution.bundle.size": str(bundle),
        "python.fn-execution.arrow.batch.size": str(bundle),
    }.items():
        result.set_string(key, value)
    return result


def count_stream(words: DataStream) -> DataStream:
    """Running counts in Python functions."""
    pair = Types.TUPLE([Types.STRING(), Types.LONG()])
    return (
        words.map(lambda word: (word, 1), output_type=pair)
        .key_by(lambda counted: counted[0], key_type=Types.STRING())
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
    )


def count_table(environment: StreamExecutionEnvironment, words: DataStream, api: str) -> DataStream:
    """The changes of a table of counts."""
    tables = StreamTableEnvironment.create(environment)
    word = Schema.new_builder().column("f0", DataTypes.STRING().not_null()).build()
    tables.create_temporary_view("words", tables.from_data_stream(words, word).alias("word"))
    if api != "sql":
        tables.create_temporary_function("ones", ONE[api])
    counted = tables.sql_query(
        f"SELECT word, {'COUNT(*)' if api == 'sql' else 'SUM(ones(word))'} FROM words GROUP BY word"  # noqa: S608
    )
    keyed = Schema.new_builder().primary_key("word").build()
    return tables.to_changelog_stream(counted, keyed, ChangelogMode.upsert())


def one(_word: str) -> int:
    """The count of one word: 1."""
    return 1


def one_of_each(words: Any) -> Any:
    """A 1 for each word of a pandas.Series."""
    return pd.Series(1, index=words.index, dtype="int64")


ONE = {
    "table_python_udf": udf(one, result_type=DataTypes.BIGINT()),
    "table_pandas_udf": udf(one_of_each, result_type=DataTypes.BIGINT(), func_type="pandas"),
}

# Flink's default is 1000. It waits for Python at the end of each bundle, so that larger ones are
# several times as fast; but a word waits for the others of its bundle, 1 s at most.
BUNDLE_WORDS = {"datastream": 10_000, "table": 50_000}

_CONFIGURATION = {
    "state.backend.type": "hashmap",
    "pipeline.object-reuse": "true",
    "execution.buffer-timeout.interval": "5 ms",
    # Tables: aggregate before the shuffle, and emit a word's count once for so many words.
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "100 ms",
    "table.exec.mini-batch.size": "5000",
}


if __name__ == "__main__":
    main()
