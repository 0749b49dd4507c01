"""A Ray cluster of given nodes on this machine, as a program: JSON in, its address out.

`python -m tests.raycluster '[{"cpus": 0}, {"cpus": 4, "slot": 4}]'`, the head first, prints its
address and stops it when standard input ends. It is a process of its own, so that it asks for
the token of its own environment.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from ray.cluster_utils import Cluster

OBJECT_STORE_BYTES = 100 * 1024**2


def options(node: dict[str, float]) -> dict[str, Any]:
    """What `ray start` would get for a node with these resources."""
    resources = dict(node)
    cpus = int(resources.pop("cpus"))
    return {
        "num_cpus": cpus,
        "resources": resources,
        "object_store_memory": OBJECT_STORE_BYTES,
    }


def main() -> None:
    """Start the cluster, tell its address, and stop it when nobody wants it any more."""
    head, *workers = json.loads(sys.argv[1])
    cluster = Cluster(initialize_head=True, head_node_args=options(head))
    try:
        for worker in workers:
            cluster.add_node(**options(worker))
        cluster.wait_for_nodes()
        print(cluster.address, flush=True)
        sys.stdin.read()
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
