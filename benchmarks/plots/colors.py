"""The colour and the marker of each system, the same in every figure.

Oka is blue to green, with a shade for each API or backend; each other system has one of the other
colours, which systems share only if they are in no figure together. Gray is for published lines,
bounds and text.
"""

from __future__ import annotations

import zlib


def color(system: str, api: str | None = None) -> str:
    """The colour of the API if it has one, or else of the system."""
    found = _LOOKS.get(f"{system} {api}") or _LOOKS.get(system)
    return found[0] if found else _OTHERS[zlib.crc32(system.encode()) % len(_OTHERS)]


def markers(system: str, api: str | None = None) -> str:
    """Markers; the first is its own, the next are for other systems of the same colour."""
    found = _LOOKS.get(f"{system} {api}") or _LOOKS.get(system)
    first = found[1] if found else "o"
    return first + "".join(each for each in _MARKERS if each != first)


GRAY = "#6b6b6b"
_LOOKS = {
    "oka per_record": ("#5ab4f0", "o"),
    "oka map_batches": ("#1f78c8", "s"),
    "oka records": ("#5ab4f0", "o"),  # as the API that processes them
    "oka native": ("#0b2f6b", "^"),
    "oka columnar": ("#12a594", "D"),
    "oka channels": ("#3d4ed0", "o"),
    "oka channels, encrypted": ("#9b6fd6", "P"),
    "oka plasma": ("#f0a030", "s"),  # Ray's object store
    "oka s3": ("#4b9b3a", "D"),
    "oka one_task": ("#0f5fa8", "o"),
    "oka two_processes": ("#38a1db", "s"),
    "oka process_each": ("#0aa37f", "D"),
    "pyzmq_msgpack_pair": ("#c2185b", "v"),
    "multiprocessing_pipe": ("#8a6a52", "X"),
    "ray_actor_calls": ("#e8710a", "<"),
    "ray_util_queue": ("#a34a00", ">"),
    "bytewax": ("#b8a200", "h"),
    "pathway": ("#e0524d", "d"),
    "flink_java": ("#f06aa8", "p"),
    "pyflink": ("#8e3a80", "H"),
    "spark": ("#7a1414", "*"),
    "ray_serve default": ("#ffb066", "<"),
    "ray_serve haproxy": ("#d9480f", ">"),
    "ray_serve direct_ingress": ("#8f2d00", "v"),
    "uvicorn": ("#7b4fa3", "X"),
    "fastapi": ("#d36fb0", "p"),
    "pyarrow": ("#c2185b", "v"),
    "duckdb": ("#e8710a", "<"),
    "polars": ("#7b4fa3", "X"),
    "confluent_kafka": ("#8a6a52", "X"),
    "quixstreams": ("#e0524d", "d"),
}
"""By system and API, or by system."""
_OTHERS = ("#c9a0dc", "#d8b365", "#ff9896", "#bcbd22")
_MARKERS = "os^DvPX<>hdpH*"
