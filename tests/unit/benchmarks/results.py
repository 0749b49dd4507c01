"""Results as benchmarks write them, with figures of a plausible shape, drawn from a fixed seed."""

import base64
import random
from typing import Any

from benchmarks.testbed.broadcast_cases import LAYOUTS
from engine.network import LatencyHistogram
from engine.report.statistics import Latency

APIS = {"per_record": 7e6, "map_batches": 16e6, "native": 48e6, "columnar": 91e6}
PAYLOADS = (32, 256)
BATCHES = (1, 10, 100, 1000)
PAIR = "pyzmq_msgpack_pair"


def a_row(**changes: Any) -> dict[str, Any]:
    """A row, as if of three runs."""
    fields = {
        "system": "oka",
        "api": "native",
        "runtime": "local",
        "transport": "shm",
        "payload_bytes": 32,
        "batch_size": 100,
        "parallelism": 1,
        "load": "closed",
        "encryption": False,
        "placement": "operator_first",
        "offered": None,
        "throughput": 1e6,
        "p50_us": 100.0,
        "cpu": 0.1,
        **changes,
    }
    throughput, p50, cpu = (fields.pop(name) for name in ("throughput", "p50_us", "cpu"))
    rng = random.Random(repr(sorted(fields.items(), key=str)))
    histogram = LatencyHistogram()
    for _ in range(1000):
        histogram.record(int(p50 * 1e3 * rng.lognormvariate(0.0, 0.6)))
    latency = Latency.of(histogram)
    return {
        **fields,
        "runs": 3,
        "throughput": {
            "median": throughput,
            "min": throughput * rng.uniform(0.8, 1.0),
            "max": throughput * rng.uniform(1.0, 1.2),
        },
        "latency_us": {
            field: getattr(latency, field) for field in ("mean", "p50", "p95", "p99", "p999", "max")
        },
        "cpu_seconds_per_million": {"median": cpu, "min": cpu * 0.95, "max": cpu * 1.05},
        "records": 3_000_000,
        "failures": [],
        "histogram": base64.b64encode(histogram.to_bytes()).decode(),
    }


def a_failed_row(**changes: Any) -> dict[str, Any]:
    """A row of which every run failed."""
    return {
        **a_row(**changes),
        "runs": 0,
        "throughput": None,
        "latency_us": None,
        "cpu_seconds_per_million": None,
        "records": 0,
        "histogram": None,
        "failures": ["worker of task 1 was lost: killed by <signal> 9 & gone"],
    }


def a_result(rows: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """A file of these rows."""
    return {
        "schema": "oka.bench/1",
        "benchmark": "word_count",
        "date": "2026-11-21",
        "machine": {
            "processor": "Intel(R) Xeon(R) Processor @ 2.60GHz",
            "cores": 2,
            "memory_bytes": 25 * 1024**3,
            "system": "Linux 6.18",
        },
        "versions": {"python": "3.11.7", "oka": "0.1.0"},
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "settings": {"seconds": 5.0, "warmup": 1.0, "repeats": 3, "seed": 0},
        "rows": rows,
        **changes,
    }


def a_sweep() -> dict[str, Any]:
    """2 payloads x 4 batch sizes x parallelism 1 and 2 x 4 APIs, and the pair at parallelism 1."""
    rows = []
    for payload in PAYLOADS:
        for batch in BATCHES:
            for tasks in (1, 2):
                if tasks == 1:
                    rows.append(_of_sweep(PAIR, "lists", 11e6, payload, batch, tasks))
                rows += [
                    _of_sweep("oka", api, most, payload, batch, tasks) for api, most in APIS.items()
                ]
    return a_result(rows)


def a_sweep_of_loads() -> dict[str, Any]:
    """Open loads of a tenth to nine tenths: 2 payloads x 4 batch sizes x 4 APIs and the pair."""
    rows = []
    for payload in PAYLOADS:
        for batch in BATCHES:
            for api, most in (*APIS.items(), ("lists", 11e6)):
                closed = _throughput(most, payload, batch, 1)
                for load in ("0.1", "0.5", "0.9"):
                    offered = closed * float(load)
                    rows.append(
                        a_row(
                            system="oka" if api in APIS else PAIR,
                            api=api,
                            payload_bytes=payload,
                            batch_size=batch,
                            load=load,
                            offered=offered,
                            throughput=offered,
                            p50_us=40.0 / (1.0 - float(load)) + batch / 20,
                            cpu=2e6 / offered,
                        )
                    )
    return a_result(rows)


def several_systems() -> dict[str, Any]:
    """Oka's APIs and eight others in one run, two of them without latencies or batches."""
    rows = [
        a_row(api=api, batch_size=1000, throughput=_throughput(most, 32, 1000, 1), cpu=2e6 / most)
        for api, most in APIS.items()
    ]
    peers = {
        PAIR: ("lists", 1000, 11e6, 7e4),
        "multiprocessing_pipe": ("lists", 1000, 6e6, 600.0),
        "ray_actor_calls": ("lists", 1000, 9e5, 1400.0),
        "ray_util_queue": ("lists", 1000, 3e5, 5000.0),
        "bytewax": ("per_record", None, 1.7e6, 500.0),
        "pyflink": ("datastream_thread_mode", 1000, 45e3, 6e4),
        "flink_java": ("datastream", 1000, 6e6, 230.0),
    }
    for system, (api, batch, throughput, p50) in peers.items():
        rows.append(
            a_row(
                system=system,
                api=api,
                runtime="processes",
                transport="tcp",
                batch_size=batch,
                throughput=throughput,
                p50_us=p50,
                cpu=2e6 / throughput,
            )
        )
    without = a_row(
        system="spark", api="structured_native", throughput=6.4e6, batch_size=1000, cpu=0.2
    )
    rows.append({**without, "latency_us": None, "histogram": None})
    return a_result(rows, benchmark="sustainable")


def some_peers() -> dict[str, Any]:
    """Three peers, each in turn with an API of Oka; one without latencies, one that failed."""
    rows = []
    for system, api, like, throughput in (
        ("flink_java", "datastream", "native", 6e6),
        ("bytewax", "per_record", "per_record", 1.7e6),
        ("pathway", "python_source", "native", 2e5),
    ):
        beside = f"{system} {api}"
        rows.append(a_row(api=like, throughput=APIS[like], cpu=0.05, beside=beside))
        rows.append(a_row(system=system, api=api, throughput=throughput, cpu=0.5, beside=beside))
    rows[1] = {**rows[1], "latency_us": None, "histogram": None}
    rows.append(a_row(beside="spark native"))
    rows.append(a_failed_row(system="spark", api="native", beside="spark native"))
    return a_result(rows, benchmark="peers")


def a_testbed() -> dict[str, Any]:
    """1 to 4 nodes, links of 1 Gbit/s, 100 Mbit/s and without limit."""
    rows = []
    for bits in (1e8, 1e9, None):
        for nodes in (1, 2, 4):
            for api, most in (("per_record", 1.5e6), ("native", 3e6)):
                rate = most * nodes**0.7
                if bits is not None:
                    rate = min(rate, bits / 8 / 300 * max(1, nodes // 2) * 0.9)
                row = a_row(
                    api=api, transport="tcp", payload_bytes=256, batch_size=1000, throughput=rate
                )
                rows.append({**row, "nodes": nodes, "rate_bits_per_second": bits})
    return a_result(rows, benchmark="testbed")


def a_broadcast() -> dict[str, Any]:
    """Each way over 1 to 3 nodes: plasma takes as long as there are nodes, the others as one."""
    rows = []
    for nodes, case in enumerate(("1", "5-2", "5-3"), 1):
        for at, (api, encryption) in enumerate(
            (("channels", False), ("channels", True), ("plasma", False), ("s3", False))
        ):
            seconds = 4.7 + 0.1 * nodes + 0.02 * at if api != "plasma" else 5.0 * nodes
            spread = {"median": seconds, "min": seconds - 0.05, "max": seconds + 0.1}
            rows.append(
                {
                    "system": "oka",
                    "api": api,
                    "encryption": encryption,
                    "case": case,
                    "about": LAYOUTS[case].about,
                    "in_memory": False,
                    "payload_bytes": 564_000_000,
                    "rate_bits_per_second": 10**9,
                    "batch_size": None,
                    "parallelism": nodes,
                    "nodes": nodes + 1,
                    "runs": 5,
                    "usable_seconds": spread,
                    "loaded_seconds": {name: value + 0.1 for name, value in spread.items()},
                    "gigabytes_per_second": 0.564 / seconds,
                    "cpu_seconds_per_gib": spread,
                    "peak_memory_bytes": {"1": 570_000_000, "2": 560_000_000},
                    "loaders": [
                        {"task": task, "host": task + 2, "usable": seconds, "loaded": seconds + 0.1}
                        for task in range(nodes)
                    ],
                    "throughput": None,
                    "latency_us": None,
                    "failures": [],
                }
            )
    return a_result(rows, benchmark="broadcast")


def _of_sweep(
    system: str, api: str, most: float, payload: int, batch: int, tasks: int
) -> dict[str, Any]:
    throughput = _throughput(most, payload, batch, tasks)
    return a_row(
        system=system,
        api=api,
        payload_bytes=payload,
        batch_size=batch,
        parallelism=tasks,
        throughput=throughput,
        p50_us=30.0 + 2e3 * batch / 1000,
        cpu=2e6 / throughput,
    )


def _throughput(most: float, payload: int, batch: int, tasks: int) -> float:
    return most * batch / (batch + 20) * (32 / payload) ** 0.6 * tasks**-0.2 + 2e5
