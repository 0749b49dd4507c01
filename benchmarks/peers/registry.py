"""All peers: each system with each of its APIs for the word count.

`like` names Oka's API that does the same kind of work: `per_record` if Python code runs for each
word, `map_batches` if Python counts a list of words at a time, `native` if compiled code counts
words from Python, `windows_...` if words are counted by time.
"""

from __future__ import annotations

from benchmarks.peers.jvm import JVM_PEERS
from benchmarks.peers.peer import Peer

PYZMQ_PAIR = Peer(
    *("pyzmq_msgpack_pair", "lists", "per_record", None, "words/pyzmq_pair.py"),
    extra="bench",
    modules=("msgpack", "zmq"),
)
"""The yardstick: every other system alternates with it."""

PEERS: tuple[Peer, ...] = (
    PYZMQ_PAIR,
    Peer("multiprocessing_pipe", "lists", "map_batches", None, "words/multiprocessing_pipe.py"),
    *(
        Peer(
            *(system, "lists", "map_batches", None, program),
            extra="ray",
            modules=("ray",),
            start_seconds=60.0,
        )
        for system, program in (
            ("ray_actor_calls", "words/ray_actors.py"),
            ("ray_util_queue", "words/ray_queue.py"),
        )
    ),
    Peer("bytewax", "per_record", "per_record", "bytewax", "words/bytewax_flow.py"),
    Peer("bytewax", "batches", "map_batches", "bytewax", "words/bytewax_flow.py"),
    Peer("bytewax", "combined", "map_batches", "bytewax", "words/bytewax_flow.py"),
    Peer(
        *("bytewax", "windows", "windows_per_record", "bytewax", "words/bytewax_flow.py"),
        has_rate=False,
        most_tasks=1,
    ),
    Peer(
        "pathway", "python_source", "native", "pathway", "words/pathway_table.py", has_batches=False
    ),
    Peer("pathway", "python_batches", "native", "pathway", "words/pathway_table.py"),
    Peer(
        "pathway",
        "python_udf",
        "per_record",
        "pathway",
        "words/pathway_table.py",
        has_batches=False,
    ),
    Peer(
        *("pathway", "windows", "windows_per_record", "pathway", "words/pathway_table.py"),
        has_batches=False,
        has_rate=False,
    ),
    *JVM_PEERS,
)
