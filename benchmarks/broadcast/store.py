"""The S3 server of the benchmark: on a host of its own, whose link has no limit.

`serving` runs this file there: `python -m benchmarks.broadcast.store FOLDER HOST MODEL`. It serves,
uploads the model's files below `s3://models/model`, prints a line, and serves until its standard
input ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.testbed.cluster import Cluster
from engine.errors import StartError

URL = "s3://models/model"


@contextmanager
def serving(cluster: Cluster, address: str, model: Path) -> Iterator[None]:
    """Serve the files of a folder as the model of URL, from a new host with that address."""
    host = cluster.network.add_host()
    if host.address != address:
        raise StartError(f"the S3 server's host is {host.address}, expected {address}")
    with tempfile.TemporaryDirectory(prefix="oka-bench-s3-") as folder:
        server = host.start(
            *(sys.executable, "-m", "benchmarks.broadcast.store", folder, address, str(model)),
            env=cluster.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert server.stdout is not None
        assert server.stderr is not None
        with server:
            try:
                if server.stdout.readline() != _READY:
                    server.kill()
                    last = "\n".join(server.stderr.read().splitlines()[-10:])
                    raise StartError(f"the S3 server on host {host.number} did not start: {last}")
                yield
            finally:
                server.kill()


def variables(address: str) -> Mapping[str, str]:
    """The environment variables of processes that use the server at that address."""
    return {
        "AWS_ENDPOINT_URL_S3": f"http://{address}:{_PORT}",
        "AWS_ACCESS_KEY_ID": "oka-bench",
        "AWS_SECRET_ACCESS_KEY": "of-the-testbed-only",
        "AWS_REGION": "us-east-1",
    }


def main() -> None:
    """Serve until the standard input ends."""
    from engine.programs.s3_server import S3Server
    from engine.s3 import S3

    folder, host, model = sys.argv[1:]
    Path(folder, URL.split("/")[2]).mkdir()
    server = S3Server(
        folder,
        host,
        _PORT,
        access_key=os.environ["AWS_ACCESS_KEY_ID"],
        secret_key=os.environ["AWS_SECRET_ACCESS_KEY"],
    )
    bucket = S3.open(URL)
    for path in sorted(Path(model).rglob("*")):
        if path.is_file():
            bucket.put_file(path.relative_to(model).as_posix(), path)
    print(_READY, end="", flush=True)
    sys.stdin.read()
    server.close()


_READY = "ready\n"
_PORT = 9000

if __name__ == "__main__":
    main()
