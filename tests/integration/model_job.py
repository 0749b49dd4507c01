"""A job with models that a test kills and lets go on: which version answers each record."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine import JobConfig, JobResult, execute
from engine.graph.context import TaskContext
from operators import source
from operators.sources import At, Function, Models
from tests.integration.checkpointed import HOLD, EpochFiles

RECORDS, BATCH = 40_000, 5


def job(folder: Path, **settings: Any) -> tuple[Any, JobConfig]:
    """Each record with the version that answers it, and what that says; `models` is watched."""
    watched = Models(watch=folder / "models")
    return _answered(folder, watched), _config(folder, **settings)


def of_values(folder: Path, **settings: Any) -> tuple[Any, JobConfig]:
    """As `job`, with models that are given one behind the other."""
    given = Models(*(str(number).encode() for number in range(1, 200)), every=0.2)
    return _answered(folder, given), _config(folder, **settings)


def of_one(folder: Path, **settings: Any) -> tuple[Any, JobConfig]:
    """As `job`, with one model, behind which its source ends, as does the first of its tasks."""
    return _answered(folder, Models(b"1"), first_held=1), _config(folder, **settings)


def _answered(folder: Path, models: Models, first_held: int = 0) -> Any:
    hold = folder / HOLD

    def numbers(context: TaskContext, position: int | None) -> Iterator[At]:
        begin, end = (
            RECORDS * index // context.parallelism for index in (context.index, context.index + 1)
        )
        for first in range(begin if position is None else position, end, BATCH):
            while hold.exists() and context.index >= first_held:
                time.sleep(0.03)
                if first + BATCH < end:  # slowly, so that models change on the way
                    break
                yield At(first, [])
            last = min(first + BATCH, end)
            yield At(last, list(range(first, last)))

    def load(model: Any) -> tuple[int, str]:
        files = model.value()
        content = files if isinstance(files, memoryview) else files["weights"]
        return model.version, bytes(content).decode()

    answered = source(Function(numbers)).map_batches_with_model(
        source(models).broadcast(via="channels"),
        load,
        lambda model, batch: [(number, *model) for number in batch],
        load_in_background=False,
    )
    return answered.sink(EpochFiles(folder / "out"))


def _config(folder: Path, **settings: Any) -> JobConfig:
    config = {
        "parallelism": 2,
        "batch_size": BATCH,
        "checkpoints": str(folder / "checkpoints"),
        "checkpoint_interval_seconds": 0.1,
        **settings,
    }
    return JobConfig.of(config)


def put(folder: Path, version: int) -> None:
    """Have this model be the one that is watched."""
    watched, new = folder / "models", folder / f"new-{version}"
    new.mkdir()
    (new / "weights").write_text(str(version))
    if watched.exists():
        watched.rename(folder / f"before-{version}")
    new.rename(watched)


def run(folder: Path, **settings: Any) -> JobResult:
    """The job to its end."""
    return execute(*job(folder, **settings))


if __name__ == "__main__":
    run(Path(sys.argv[1]), resume="latest")
