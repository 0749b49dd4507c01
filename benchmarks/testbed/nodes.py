"""The living nodes of the Ray cluster that RAY_ADDRESS names, as JSON on the standard output.

`python -m benchmarks.testbed.nodes EXPECTED SECONDS` waits for so many nodes at most so long.
"""

from __future__ import annotations

import json
import logging
import sys
import time

import ray

from engine.driver.ray.address import check_ray_address
from engine.errors import StartError


def main() -> None:
    """Wait for the nodes and print their resources."""
    expected, deadline = int(sys.argv[1]), time.monotonic() + float(sys.argv[2])
    try:
        check_ray_address(None)
    except StartError as error:
        sys.exit(error.message)
    ray.init(logging_level=logging.ERROR, log_to_driver=False)
    while len(alive := _alive()) < expected and time.monotonic() < deadline:
        time.sleep(0.1)
    print(json.dumps(alive))


def _alive() -> dict[str, dict[str, float]]:
    """The resources of each living node, by its address."""
    nodes = ray.nodes()  # type: ignore[no-untyped-call]
    return {node["NodeManagerAddress"]: node["Resources"] for node in nodes if node["Alive"]}


if __name__ == "__main__":
    main()
