"""Two plain Python processes: lists of words, msgpack over PUSH/PULL on tcp, counts in a dict.

What a careful person writes without Oka, and less than Oka does: no map, no key, no reduce, no
end that is acknowledged. The words come from the same generator as Oka's.

Every hundredth word is followed by a stamp of its own, from which the sink takes the latency once
the batch before it is counted.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
from typing import Any

import msgpack
import zmq

from benchmarks.measurement import Measurement
from engine.graph.operator import TaskContext
from engine.network import LatencyHistogram
from operators.sources import RandomWords


def measure(
    payload_bytes: int,
    batch_size: int,
    seconds: float,
    warmup: float,
    rate: float | None,
    seed: int,
) -> Measurement:
    """Run the pair once; raises RuntimeError if a process fails or the counts differ."""
    settings = {
        "length": payload_bytes,
        "batch_size": batch_size,
        "seconds": seconds,
        "warmup": warmup,
        "rate": rate,
        "seed": seed,
    }
    command = [sys.executable, "-m", "benchmarks.peers.pyzmq_pair"]
    sink = subprocess.Popen(
        [*command, "sink", json.dumps(settings)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert sink.stdout is not None
        endpoint = sink.stdout.readline().strip()
        source = subprocess.run(
            [*command, "source", json.dumps({**settings, "endpoint": endpoint})],
            stdout=subprocess.PIPE,
            text=True,
            timeout=seconds + 60,
            check=True,
        )
        output, _ = sink.communicate(timeout=60)
    except subprocess.SubprocessError as error:
        raise RuntimeError(f"the pyzmq pair failed: {error}") from error
    finally:
        sink.kill()
        sink.wait()
        if sink.stdout is not None:
            sink.stdout.close()
    sent, received = json.loads(source.stdout), json.loads(output)
    if sent["words"] != received["words"]:
        raise RuntimeError(f"the pair sent {sent['words']} words and counted {received['words']}")
    cpu = sent["cpu_seconds"] + received["cpu_seconds"]
    return Measurement(
        throughput=received["throughput"],
        cpu_seconds_per_million=cpu / received["words"] * 1e6,
        histogram=base64.b64decode(received["histogram"]),
        records=received["words"],
    )


def run_source(settings: dict[str, Any]) -> dict[str, Any]:
    """Push batches of words, as fast as possible or at a rate."""
    words = RandomWords(
        length=settings["length"],
        seconds=settings["seconds"],
        seed=settings["seed"],
        rate=settings["rate"],
    )
    batches = words.open(TaskContext("source", 0, 1, settings["batch_size"], "pair"))
    rate = settings["rate"]
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PUSH)
    socket.connect(settings["endpoint"])
    started_cpu, start, sent, until_stamp = time.process_time(), time.monotonic(), 0, 100
    send, pack = socket.send, msgpack.packb
    for batch in batches:
        stamp = None
        if rate is not None:
            due = start + sent / rate
            stamp = int(due * 1e9)
            delay = due - time.monotonic()
            if delay > 0:
                time.sleep(delay)
        send(pack(batch))
        sent += len(batch)
        until_stamp -= len(batch)
        if until_stamp <= 0:
            until_stamp = 100
            send(pack(stamp or time.monotonic_ns()))
    send(pack(None))
    cpu = time.process_time() - started_cpu
    socket.close()
    zmq.Context.instance().term()
    return {"words": sent, "cpu_seconds": cpu}


def run_sink(settings: dict[str, Any]) -> dict[str, Any]:
    """Pull batches and count their words, until the end."""
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PULL)
    port = socket.bind_to_random_port("tcp://127.0.0.1")
    print(f"tcp://127.0.0.1:{port}", flush=True)
    counts: dict[str, int] = {}
    latency = LatencyHistogram()
    receive, unpack = socket.recv, msgpack.unpackb
    message = unpack(receive())
    started_cpu, first = time.process_time(), time.monotonic()
    warm = first + settings["warmup"]
    first_words: int | None = None
    while message is not None:
        if type(message) is int:
            now = time.monotonic()
            if first_words is not None:
                latency.record_many([message], time.monotonic_ns())
            elif now >= warm:
                first, first_words = now, sum(counts.values())
        else:
            for word in message:
                counts[word] = counts.get(word, 0) + 1
        message = unpack(receive())
    last, total = time.monotonic(), sum(counts.values())
    cpu = time.process_time() - started_cpu
    socket.close()
    return {
        "words": total,
        "throughput": (total - (first_words or 0)) / (last - first),
        "cpu_seconds": cpu,
        "histogram": base64.b64encode(latency.to_bytes()).decode(),
    }


if __name__ == "__main__":
    role = {"source": run_source, "sink": run_sink}[sys.argv[1]]
    print(json.dumps(role(json.loads(sys.argv[2]))))
