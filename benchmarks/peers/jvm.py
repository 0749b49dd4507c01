"""The peers on the JVM: Flink in Java and in Python, and Spark Structured Streaming."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from benchmarks.peers.peer import ENVIRONMENTS, Peer


@dataclass(frozen=True)
class JvmPeer(Peer):
    """A peer that needs Java, and may need the jar of `flink_java/`."""

    has_batches: bool = False
    start_seconds: float = 90.0
    needs_jar: bool = False

    @property
    def setup(self) -> str:
        """The command that installs it."""
        return super().setup if self.environment else "make peers-flink"

    def missing(self) -> str | None:
        """The reason why it cannot run here; None if it can."""
        if shutil.which("java") is None:
            return f"{self.system} needs Java 17, and there is no java on the PATH"
        if self.needs_jar and not _JAR.exists():
            return f"{self.system} is not built: there is no {_JAR}"
        return super().missing()


_JAR = ENVIRONMENTS / "flink" / "oka-peers.jar"

JVM_PEERS: tuple[Peer, ...] = (
    JvmPeer("flink_java", "datastream", "native", None, "words/flink_java.py", needs_jar=True),
    JvmPeer(
        *("flink_java", "datastream_windows", "windows_native", None, "words/flink_java.py"),
        needs_jar=True,
        has_rate=False,
    ),
    *(
        JvmPeer("pyflink", api, like, "pyflink", "words/flink_python.py", needs_jar=True)
        for api, like in (
            ("datastream_process", "per_record"),
            ("datastream_thread", "per_record"),
            ("table_python_udf", "per_record"),
            ("table_pandas_udf", "map_batches"),
            ("sql", "native"),
        )
    ),
    *(
        JvmPeer("spark", api, like, "spark", "words/spark_streaming.py", has_rate=False)
        for api, like in (
            ("native", "native"),
            ("pandas_udf", "map_batches"),
            ("python_udf", "per_record"),
        )
    ),
)
