"""Flink's DataStream in Java (`flink_java/`); this process becomes its JVM.

- `datastream`: a running count of each word, emitted for each word;
- `datastream_windows`: a count of each word and tenth of a second of event time.
"""

from __future__ import annotations

import os

from flink_jar import FOLDER, JAR, java_settings, jvm_options
from program import Settings


def main() -> None:
    """Replace this process by the JVM."""
    settings = Settings.of_arguments()
    classpath = f"{JAR}:{FOLDER / 'lib'}/*"
    program = ["-cp", classpath, f"oka.peers.{MAIN[settings.api]}", java_settings(settings)]
    os.execvp("java", ["java", *jvm_options(settings), *program])  # noqa: S606


MAIN = {"datastream": "WordCount", "datastream_windows": "WordWindows"}

if __name__ == "__main__":
    main()
