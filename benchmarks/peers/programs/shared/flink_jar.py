"""The jar of `flink_java/`: the word count in Java, and PyFlink's source and sink."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

from program import Settings, dictionary

FOLDER = Path(os.environ.get("OKA_PEERS", Path(__file__).parents[4] / ".peers")) / "flink"
JAR = FOLDER / "oka-peers.jar"


def java_settings(settings: Settings) -> str:
    """Write the settings of the jar's classes, with the dictionary, as JSON."""
    return json.dumps({**asdict(settings), "dictionary": dictionary(settings)})


def jvm_options(settings: Settings) -> list[str]:
    """The command that starts Flink's JVM; all its files are in the folder of the run."""
    return [*_OPTIONS, f"-Djava.io.tmpdir={settings.folder}"]


# The parallel collector costs less CPU per word than G1.
_OPTIONS = ("-Xms1g", "-Xmx1g", "-XX:+UseParallelGC", "-XX:-UsePerfData")
