"""A server of S3's protocol on a folder, for development and tests, as a process beside this one.

    with S3Server(folder, access_key="me", secret_key="secret") as server:
        s3 = S3.open("s3://models/v1", endpoint=server.endpoint)
        s3.put("weights", array)

The program is `oka-s3-server` (`rust/s3-server`); `make s3-server` builds it into the package.
"""

from __future__ import annotations

import math
import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from engine.errors import ConfigError, StorageError
from engine.programs import built

__all__ = ["S3Server", "ServerStatistics", "program"]


class ServerStatistics(NamedTuple):
    """What went through a server so far."""

    requests: int
    bytes_sent: int
    bytes_received: int


class S3Server:
    """S3's protocol on a folder: a folder in it is a bucket, a file below that an object.

    For development and tests. Signatures are checked; keys cannot lead out of their bucket. Objects
    have no metadata and no versions; their ETag is not an MD5 sum. It is a process that runs until
    `close`, the end of a `with` block, or the end of this process, however that ends.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        access_key: str,
        secret_key: str,
        region: str = "us-east-1",
        roles: Sequence[str] = (),
        web_identity_token_file: str | os.PathLike[str] | None = None,
        session_seconds: float = 3600.0,
    ) -> None:
        """Serve `folder`, which is made where it is missing; port 0 picks one.

        `roles` are ARNs that may be assumed, with the key or, where it has a file, with the web
        identity token in it. `session_seconds`: the longest that temporary credentials last. Raises
        StorageError where the folder or the port cannot be had, ConfigError where the program is
        not built.
        """
        if not access_key or not secret_key:
            raise ConfigError("the server needs an access key and a secret key, both not empty")
        if not 0 <= port < 1 << 16:
            raise ConfigError(f"the port is {port}, expected 0 to 65535")
        if not 0 <= session_seconds < math.inf:
            raise ConfigError(f"session_seconds is {session_seconds}, expected 0 or more")
        options = {
            "--folder": os.fspath(folder),
            "--host": host,
            "--port": str(port),
            "--region": region,
            "--session-seconds": str(float(session_seconds)),
        }
        if web_identity_token_file is not None:
            options["--web-identity-token-file"] = os.fspath(web_identity_token_file)
        words = [word for option in options.items() for word in option]
        words += [word for role in roles for word in ("--role", role)]
        self._turn = threading.Lock()
        self._process = subprocess.Popen(
            [str(program()), *words],
            bufsize=0,
            stdin=subprocess.PIPE,  # which ends with this process, and the server with it
            stdout=subprocess.PIPE,
            env={**os.environ, "OKA_S3_ACCESS_KEY": access_key, "OKA_S3_SECRET_KEY": secret_key},
            restore_signals=False,  # what is too large for a limit is an error, and no end
            start_new_session=True,  # Ctrl-C is for this process
        )
        first = self._line()
        if not first.startswith("http://"):
            rest = self._end()
            raise StorageError(
                f"the S3 server did not start: {(first + rest).strip() or self._status()}",
                _start_hint(first),
            )
        self._endpoint = first.strip()

    @property
    def endpoint(self) -> str:
        """Where requests go, such as http://127.0.0.1:9000."""
        return self._endpoint

    @property
    def pid(self) -> int:
        """The server's process."""
        return self._process.pid

    def statistics(self) -> ServerStatistics:
        """What went through so far; raises StorageError if the server has ended."""
        assert self._process.stdin is not None
        with self._turn:
            try:
                self._process.stdin.write(b"\n")
                line = self._line()
            except (OSError, ValueError):  # a broken pipe, a closed one
                line = ""
        if not line:
            self.close()
            raise StorageError(f"the S3 server has ended: {self._status()}")
        return ServerStatistics(*map(int, line.split()))

    def close(self) -> None:
        """Cut off all connections and end the server. Does nothing the second time."""
        self._end()

    def __enter__(self) -> S3Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end(self) -> str:
        """End the server; what it still said."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._turn:
            if self._process.stdout.closed:
                return ""
            self._process.stdin.close()
            try:
                self._process.wait(_PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            rest = self._process.stdout.read().decode(errors="replace")
            self._process.stdout.close()
            return rest

    def _line(self) -> str:
        """The next line of the program, empty at its end."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().decode(errors="replace")

    def _status(self) -> str:
        return f"status {self._process.returncode}"


def program() -> Path:
    """The server's program; raises ConfigError where it is not built."""
    how = "`make s3-server` builds it in a checkout, and wheels made there have it"
    return built("the S3 server", "OKA_S3_SERVER", _PROGRAM, how)


def _start_hint(message: str) -> str | None:
    if "in use" in message:
        return "another program listens there: take another --port, or 0 for any"
    if "another server" in message:
        return "stop that one, or serve another folder"
    return None


_PROGRAM = Path(__file__).parents[1] / "bin" / "oka-s3-server"
_PATIENCE_SECONDS = 10.0
"""The server itself cuts connections off after two seconds."""
