"""Python processes and a `multiprocessing.Pipe` from each source to each sink.

Lists of words with their stamps, pickled, counted in a dict.
"""

from __future__ import annotations

import time
from collections import Counter
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection, wait
from typing import cast

from program import Settings, Window, Words, partition


def main() -> None:
    """Run one source process and one sink process for each task."""
    settings = Settings.of_arguments()
    tasks = range(settings.parallelism)
    pipes = [[Pipe(duplex=False) for _ in tasks] for _ in tasks]
    processes = []
    for index in tasks:
        receivers = [pipes[source][index][0] for source in tasks]
        senders = [pipes[index][sink][1] for sink in tasks]
        processes.append(Process(target=run_sink, args=(settings, index, receivers)))
        processes.append(Process(target=run_source, args=(settings, index, senders)))
    for process in processes:
        process.start()
    for process in processes:
        process.join()


def run_source(settings: Settings, index: int, senders: list[Connection]) -> None:
    """Send batches with their stamps, each to the sink that counts it, and None at the end."""
    words = Words(settings, index)
    cpu = time.process_time()
    for sink, batch, stamp in partition(words, settings):
        senders[sink].send((batch, stamp))
    for sender in senders:
        sender.send(None)
    words.write(time.process_time() - cpu)


def run_sink(settings: Settings, index: int, receivers: list[Connection]) -> None:
    """Count batches until None of every source."""
    counts: Counter[str] = Counter()
    window = Window(settings, index)
    cpu = time.process_time()
    while receivers:
        ready = list(receivers)
        if len(ready) > 1:
            ready = cast(list[Connection], wait(ready))
        for receiver in ready:
            received = receiver.recv()
            if received is None:
                receivers.remove(receiver)
                continue
            words, stamp = received
            counts.update(words)
            window.arrived(len(words), stamp)
    window.write(counts, time.process_time() - cpu)


if __name__ == "__main__":
    main()
