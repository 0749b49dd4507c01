"""Whether a worker can write checkpoints where the driver keeps their log."""

from __future__ import annotations

import secrets
from contextlib import suppress

from engine.checkpoint.storage import open_storage
from engine.errors import CheckpointError, StorageError


def check_reach(url: str, seen: str, host: str) -> None:
    """Raise CheckpointError unless this process can write there, read, and list `seen`.

    `seen` is a file of the driver's. `host` is where the process runs, for the error.
    """
    name = f"reach/{secrets.token_hex(8)}"
    storage = open_storage(url)
    try:
        storage.put(name, b"reached")
        storage.get(name)
        found = storage.list(seen.partition("/")[0])
    except StorageError as error:
        raise CheckpointError(
            f"the worker on host {host} cannot write checkpoints: {error.message}", error.hint
        ) from error
    finally:
        with suppress(StorageError):  # who may write need not be allowed to delete
            storage.delete([name])
    if seen not in found:
        raise CheckpointError(
            f"the worker on host {host} does not see what the driver has written to {url}: {seen} "
            "is not there",
            "all machines of the job have to see one folder under this path, such as a mounted "
            "one; or take s3://bucket/prefix",
        )
