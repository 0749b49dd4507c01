"""Plain Python processes: lists of words, msgpack over PUSH/PULL on tcp, counts in a dict.

A careful program without Oka. It does less than Oka: no map, no key (except to choose the sink at
parallelism 2 and more), no reduce, no acknowledged end. A stamp follows its batch as a separate
message, from which the sink computes the latency when the batch is counted.
"""

from __future__ import annotations

import time
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection

import msgpack
import zmq
from program import Settings, Window, Words, partition


def main() -> None:
    """Run the sinks, and with their endpoints the sources."""
    settings = Settings.of_arguments()
    sinks, sources, endpoints = [], [], []
    for index in range(settings.parallelism):
        receiver, sender = Pipe(duplex=False)
        sinks.append(Process(target=run_sink, args=(settings, index, sender)))
        sinks[-1].start()
        endpoints.append(receiver.recv())
    for index in range(settings.parallelism):
        sources.append(Process(target=run_source, args=(settings, index, endpoints)))
        sources[-1].start()
    for process in (*sources, *sinks):
        process.join()


def run_source(settings: Settings, index: int, endpoints: list[str]) -> None:
    """Push batches of words, each to the sink that counts them, None at the end."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    sockets = []
    for endpoint in endpoints:
        socket = context.socket(zmq.PUSH)
        socket.connect(endpoint)
        sockets.append(socket)
    words = Words(settings, index)
    cpu = time.process_time()
    if settings.parallelism == 1:
        send, pack = sockets[0].send, msgpack.packb
        for batch, stamp in words:
            send(pack(batch))
            if stamp is not None:
                send(pack(stamp))
    else:
        for sink, batch, stamp in partition(words, settings):
            sockets[sink].send(msgpack.packb(batch))
            if stamp is not None:
                sockets[sink].send(msgpack.packb(stamp))
    for socket in sockets:
        socket.send(msgpack.packb(None))
    words.write(time.process_time() - cpu)
    context.destroy(linger=-1)


def run_sink(settings: Settings, index: int, parent: Connection) -> None:
    """Pull batches and count their words, until every source has sent None."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = context.socket(zmq.PULL)
    port = socket.bind_to_random_port("tcp://127.0.0.1")
    parent.send(f"tcp://127.0.0.1:{port}")
    counts: dict[str, int] = {}
    window = Window(settings, index)
    receive, unpack = socket.recv, msgpack.unpackb
    message = unpack(receive())
    cpu, before, sources = time.process_time(), 0, settings.parallelism
    while message is not None or (sources := sources - 1) > 0:
        if type(message) is int:
            begun = window.begun
            window.arrived(0, message)
            if window.begun and not begun:
                before = sum(counts.values())
        elif message is not None:
            for word in message:
                counts[word] = counts.get(word, 0) + 1
        message = unpack(receive())
    window.arrived(sum(counts.values()) - before)
    window.write(counts, time.process_time() - cpu)
    context.destroy()


if __name__ == "__main__":
    main()
