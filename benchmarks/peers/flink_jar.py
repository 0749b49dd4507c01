"""The jar of `flink_java/`: the word count in Java, and PyFlink's source and sink."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

from program import Settings, dictionary

FOLDER = Path(os.environ.get("OKA_PEERS", Path(__file__).parents[2] / ".peers")) / "flink"
JAR = FOLDER / "oka-peers.jar"


def java_settings(settings: Settings) -> str:
    """What the jar's classes read: the settings with the dictionary, in JSON."""
    return json.dumps({**asdict(settings), "dictionary": dictionary(settings)})


def jvm_options(settings: Settings) -> list[str]:
    """How Flink's JVM is started; all its files are in the folder of the run."""
    return [*_OPTIONS, f"-Djava.io.tmpdir={settings.folder}"]


# The parallel collector costs less CPU per word than G1.
_OPTIONS = ("-Xms1g", "-Xmx1g", "-XX:+UseParallelGC", "-XX:-UsePerfData")
