"""The job of the kill matrix: words of a topic, numbered per word, to a topic.

What is no text goes to a topic of dead letters. Arguments: the folder, the broker, the topics that
it reads and writes, that of dead letters, moments as JSON, and seconds between checkpoints. Each
moment is of `MOMENTS`, the number of the call at which it is due, and whom it kills: "worker" or
"driver". The same command goes on where one before it was killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import engine
from operators import ProcessFunction, SinkWriter, TaskContext, ValueState, source
from operators.formats import Bytes, Text
from operators.kafka import KafkaSink, KafkaSource
from operators.kafka.commits import Commits
from operators.kafka.producer import Producer
from operators.kafka.writers import StagingWriter
from tests import jobfolders

MOMENTS = (
    "before prepare",
    "after prepare",  # the checkpoint is not stored
    "before commit",  # it is
    "in a transaction",
    "before the mark",
    "before the end of a transaction",
    "after a transaction",  # nobody hears of it
)


class Kills:
    """Kills this worker or its driver at moments; each once, whoever comes to it first."""

    def __init__(self, folder: str, moments: list[tuple[str, int, str]]) -> None:
        self._folder = Path(folder)
        self._moments = moments

    def reached(self, moment: str) -> None:
        """Count the moment, of all tasks and attempts; kill whom it is to kill."""
        for place, (name, number, whom) in enumerate(self._moments):
            if name == moment and self._is_due(place, number):
                os.kill(os.getpid() if whom == "worker" else _driver(), signal.SIGKILL)

    def _is_due(self, place: int, number: int) -> bool:
        """Whether it is the call of this number: one file is made for each."""
        for call in range(1, number + 1):
            try:
                (self._folder / f"moment-{place}-{call}").touch(exist_ok=False)
            except FileExistsError:
                continue
            return call == number
        return False


def _driver() -> int:
    """The worker's parent is the fork server, and its parent the driver."""
    status = Path(f"/proc/{os.getppid()}/status").read_text()
    return int(status.partition("PPid:")[2].split()[0])


class KillingSink(KafkaSink):
    """`KafkaSink` whose writers come to moments."""

    def __init__(self, kills: Kills, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.kills = kills

    def open(self, context: TaskContext) -> SinkWriter:
        """A writer of `KafkaSink`, with moments around its calls."""
        reached = self.kills.reached
        _around(StagingWriter, "prepare", "before prepare", "after prepare", reached)
        _around(Commits, "commit", "before commit", "", reached)
        _around(Producer, "begin", "", "in a transaction", reached)
        _around(Producer, "flush", "", "before the mark", reached)
        _around(
            Producer, "commit", "before the end of a transaction", "after a transaction", reached
        )
        return super().open(context)


def _around(
    kind: type, method: str, before: str, after: str, reached: Callable[[str], None]
) -> None:
    original = getattr(kind, method)
    if hasattr(original, "original"):  # another attempt in the same process
        original = original.original

    def call(*arguments: Any, **named: Any) -> Any:
        if before:
            reached(before)
        result = original(*arguments, **named)
        if after:
            reached(after)
        return result

    call.original = original  # type: ignore[attr-defined]
    setattr(kind, method, call)


class Numbered(ProcessFunction):
    """Each word with its number: none is there twice."""

    seen = ValueState(0)

    def process(self, record: Any, context: Any) -> list[tuple[str, bytes]]:
        """The word and its number."""
        self.seen += 1
        return [(context.key, b"%d" % self.seen)]


def undecoded(letter: Any) -> bytes:
    """The message of a dead letter, which is that and why it is one."""
    return bytes(letter[0].value)


def main() -> None:
    """Run the job, or go on with it."""
    folder, servers, read, written, dead, moments, seconds = sys.argv[1:]
    jobfolders.announce((Path(folder) / "job").open("a"))
    kills = Kills(folder, json.loads(moments))
    words = source(KafkaSource(read, servers, format=Text(), on_error="dead_letter", end="latest"))
    letters = KillingSink(kills, dead, servers, value=undecoded, format=Bytes())
    numbered = words.key_by(lambda word: word).process(Numbered())
    engine.execute(
        [
            numbered.sink(KillingSink(kills, written, servers, key=0, value=1, format=Bytes())),
            words.side("dead_letter").sink(letters),
        ],
        parallelism=2,
        placement="parallelism_first",
        checkpoints=f"{folder}/checkpoints",
        checkpoint_interval_seconds=float(seconds),
        resume="latest",
        restarts=100,
    )


if __name__ == "__main__":
    main()
