"""Raw Ray actors: source actors call sink actors with lists of words, which count in a dict.

A local Ray of its own, an actor for each task. A source has a bounded number of calls in flight and
waits for half of them at once. A call returns nothing; its end is the acknowledgement.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from typing import Any

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import ray
from program import Settings, Window, Words, partition, wait_until_measured


def main() -> None:
    """Start Ray and its actors, and wait for the sources, then for the sinks."""
    settings = Settings.of_arguments()
    start_ray(settings, actors=2 * settings.parallelism)
    tasks = range(settings.parallelism)
    sinks = [Sink.remote(settings, index) for index in tasks]  # type: ignore[attr-defined]
    sources = [Source.remote(settings, index, sinks) for index in tasks]  # type: ignore[attr-defined]
    ray.get([actor.__ray_ready__.remote() for actor in (*sinks, *sources)])
    ray.get([source.run.remote() for source in sources])
    ray.get([sink.finish.remote() for sink in sinks])
    wait_until_measured(settings)
    ray.shutdown()


def start_ray(settings: Settings, actors: int) -> None:
    """A Ray for this run alone: a CPU for each actor, its files in the folder of the run."""
    ray.init(
        address="local",
        num_cpus=actors,
        object_store_memory=_OBJECT_STORE_BYTES,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.WARNING,
        _temp_dir=settings.folder,
    )


@ray.remote(num_cpus=1)
class Source:
    """One source task."""

    def __init__(self, settings: Settings, index: int, sinks: list[Any]) -> None:
        self._settings = settings
        self._index = index
        self._sinks = sinks

    def run(self) -> None:
        """Call the sinks to the end of the run, and wait for the last calls."""
        words = Words(self._settings, self._index)
        in_flight: list[Any] = []
        for sink, batch, stamp in partition(words, self._settings):
            in_flight.append(self._sinks[sink].count.remote(batch, stamp))
            if len(in_flight) == _MOST_IN_FLIGHT:
                done, in_flight = ray.wait(in_flight, num_returns=_MOST_IN_FLIGHT // 2)
                ray.get(done)
        ray.get(in_flight)
        words.write()


@ray.remote(num_cpus=1)
class Sink:
    """One sink task."""

    def __init__(self, settings: Settings, index: int) -> None:
        self._window = Window(settings, index)
        self._counts: Counter[str] = Counter()

    def count(self, words: list[str], stamp: int | None) -> None:
        """Count a batch."""
        self._counts.update(words)
        self._window.arrived(len(words), stamp)

    def finish(self) -> None:
        """Write the counts."""
        self._window.write(self._counts)


_MOST_IN_FLIGHT = 32
_OBJECT_STORE_BYTES = 256 << 20

if __name__ == "__main__":
    main()
