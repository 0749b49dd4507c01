"""PyFlink: queries of Nexmark in Flink SQL, with a Python function if the query needs one.

Tables and sink are those of `flink_java/`; `FUNCTIONS` run in a process for each task. As in Java,
the query runs several times in one JVM, and the last run counts.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from flink_jar import FOLDER, JAR
from pyflink.common import Configuration
from pyflink.java_gateway import get_gateway
from pyflink.table import DataTypes, EnvironmentSettings, TableDescriptor, TableEnvironment
from pyflink.table.udf import udf


def main() -> None:
    """Run the query of the settings of `run_pyflink`, as often as they say."""
    settings = json.loads(sys.argv[1])
    os.environ["JVM_ARGS"] = " ".join(settings["jvm_options"])
    os.environ["FLINK_LOG_DIR"] = settings["folder"]
    # Beside Flink's own classes, so that the clocks of source, sink and this program are the same.
    jars = [JAR, *(FOLDER / "lib").glob("arrow-*.jar"), *(FOLDER / "lib").glob("jackson-*.jar")]
    jars += (FOLDER / "lib").glob("flatbuffers-*.jar")
    os.environ["HADOOP_CLASSPATH"] = os.pathsep.join(map(str, jars))
    repeated = get_gateway().jvm.oka.peers.Repeated
    for _ in range(settings["runs"]):
        repeated.reset()
        run(settings)
    Path(settings["result"]).write_text(repeated.told())


def run(settings: dict) -> None:  # type: ignore[type-arg]
    """Run it once."""
    configuration = Configuration()
    for name, value in {
        **settings["configuration"],
        "parallelism.default": str(settings["parallelism"]),
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
        "python.fn-execution.bundle.size": str(BUNDLE_EVENTS),
        "python.fn-execution.arrow.batch.size": str(BUNDLE_EVENTS),
    }.items():
        configuration.set_string(name, value)
    chosen = EnvironmentSettings.new_instance().in_streaming_mode()
    tables = TableEnvironment.create(chosen.with_configuration(configuration).build())
    for statement in settings["statements"]:
        tables.execute_sql(statement)
    for name, function in FUNCTIONS.items():
        tables.create_temporary_function(name, function)
    results = TableDescriptor.for_connector("results").build()
    tables.sql_query(settings["query"]).execute_insert(results).wait()


def euros(price: int) -> float:
    """A price in dollars, in euros."""
    return 0.908 * price


def is_asked_for(auction: int) -> bool:
    """Whether `q2` asks for an auction."""
    return auction % 123 == 0


FUNCTIONS = {
    "EUROS": udf(euros, result_type=DataTypes.DOUBLE()),
    "IS_ASKED_FOR": udf(is_asked_for, result_type=DataTypes.BOOLEAN()),
}
BUNDLE_EVENTS = 50_000
"""As in the word count."""

if __name__ == "__main__":
    main()
