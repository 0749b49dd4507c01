"""Two Python processes and a `multiprocessing.Pipe`: lists of words, pickled, counted in a dict."""

from __future__ import annotations

import time
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection

from program import Settings, Window, Words, count


def main() -> None:
    """Run one source process and one sink process for each task."""
    settings = Settings.of_arguments()
    processes = []
    for index in range(settings.parallelism):
        receiver, sender = Pipe(duplex=False)
        processes.append(Process(target=run_sink, args=(settings, index, receiver)))
        processes.append(Process(target=run_source, args=(settings, index, sender)))
    for process in processes:
        process.start()
    for process in processes:
        process.join()


def run_source(settings: Settings, index: int, sender: Connection) -> None:
    """Send batches with their stamps, None at the end."""
    words = Words(settings, index)
    cpu = time.process_time()
    for batch in words:
        sender.send(batch)
    sender.send(None)
    words.write(time.process_time() - cpu)


def run_sink(settings: Settings, index: int, receiver: Connection) -> None:
    """Count batches until None."""
    counts: dict[str, int] = {}
    window = Window(settings, index)
    cpu = time.process_time()
    while (received := receiver.recv()) is not None:
        words, stamp = received
        count(counts, words)
        window.arrived(len(words), stamp)
    window.write(counts, time.process_time() - cpu)


if __name__ == "__main__":
    main()
