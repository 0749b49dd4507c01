"""`ray.util.queue.Queue`: lists of words put into and taken from the actor that is the queue.

A local Ray of its own, an actor for each task, and a queue for each sink. Every list crosses twice,
by two calls for which the callers wait.
"""

from __future__ import annotations

from collections import Counter

import ray
from program import Settings, Window, Words, partition, wait_until_measured
from ray.util.queue import Queue
from ray_actors import start_ray


def main() -> None:
    """Start Ray, the queues and the actors, and wait for all of them."""
    settings = Settings.of_arguments()
    start_ray(settings, actors=3 * settings.parallelism)
    tasks = range(settings.parallelism)
    queues = [Queue(maxsize=_MOST_QUEUED, actor_options={"num_cpus": 1}) for _ in tasks]
    sources = [Source.remote(settings, index, queues) for index in tasks]  # type: ignore[attr-defined]
    sinks = [Sink.remote(settings, index, queues[index]) for index in tasks]  # type: ignore[attr-defined]
    ray.get([actor.__ray_ready__.remote() for actor in (*sinks, *sources)])
    ray.get([actor.run.remote() for actor in (*sources, *sinks)])
    wait_until_measured(settings)
    ray.shutdown()


@ray.remote(num_cpus=1)
class Source:
    """One source task."""

    def __init__(self, settings: Settings, index: int, queues: list[Queue]) -> None:
        self._settings = settings
        self._index = index
        self._queues = queues

    def run(self) -> None:
        """Put batches to the end of the run, and then None into every queue."""
        words = Words(self._settings, self._index)
        for sink, batch, stamp in partition(words, self._settings):
            self._queues[sink].put((batch, stamp))
        for queue in self._queues:
            queue.put(None)
        words.write()


@ray.remote(num_cpus=1)
class Sink:
    """One sink task."""

    def __init__(self, settings: Settings, index: int, queue: Queue) -> None:
        self._settings = settings
        self._index = index
        self._queue = queue

    def run(self) -> None:
        """Count the lists of the queue, until every source has put None."""
        counts: Counter[str] = Counter()
        window = Window(self._settings, self._index)
        sources = self._settings.parallelism
        while sources > 0:
            item = self._queue.get()
            if item is None:
                sources -= 1
                continue
            words, stamp = item
            counts.update(words)
            window.arrived(len(words), stamp)
        window.write(counts)


_MOST_QUEUED = 16

if __name__ == "__main__":
    main()
