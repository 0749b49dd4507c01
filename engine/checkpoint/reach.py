"""Whether a worker can write checkpoints where the driver keeps their log."""

from __future__ import annotations

import secrets
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress

from engine.checkpoint.place import open_storage
from engine.checkpoint.storage import Storage
from engine.errors import CheckpointError, StorageError


def check_reach(url: str, seen: str, host: str, *, goes_on: bool = False) -> None:
    """Raise CheckpointError unless this process can write there, read, and list `seen`.

    `seen` is a file of the driver's. `host` is where the process runs, for the error. It takes at
    most `_PATIENCE_SECONDS`. A job that `goes_on` has had answers from the storage: there what may
    pass, such as no answer, is not raised.
    """
    answered: Future[list[str]] = Future()

    def ask() -> None:
        try:
            answered.set_result(_found(open_storage(url), seen))
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            answered.set_exception(error)

    # In a thread, since storages try for minutes without an answer.
    threading.Thread(target=ask, name="oka-reach", daemon=True).start()
    try:
        found = answered.result(_PATIENCE_SECONDS)
    except FutureTimeout:
        if goes_on:
            return
        raise CheckpointError(
            f"the worker on host {host} cannot write checkpoints to {url}: there was no answer "
            f"for {_PATIENCE_SECONDS:g} s",
            "can that host reach it? Firewalls and network policies drop what they do not let "
            "through",
        ) from None
    except StorageError as error:
        if goes_on and error.code not in _LASTING:
            return
        raise CheckpointError(
            f"the worker on host {host} cannot write checkpoints: {error.message}", error.hint
        ) from None
    if seen not in found:
        raise CheckpointError(
            f"the worker on host {host} does not see what the driver has written to {url}: {seen} "
            "is not there",
            "all machines of the job have to see one folder under this path, such as a mounted "
            "one; or take s3://bucket/prefix",
        )


def _found(storage: Storage, seen: str) -> list[str]:
    """The listed names besides `seen`, after a file could be written and read."""
    name = f"reach/{secrets.token_hex(8)}"
    storage.put(name, b"reached")
    try:
        storage.get(name)
        return storage.list(seen.partition("/")[0])
    finally:
        with suppress(StorageError):  # a permission to write includes none to delete
            storage.delete([name])


_PATIENCE_SECONDS = 10.0
_LASTING = {
    "AccessDenied",
    "InvalidAccessKeyId",
    "InvalidToken",
    "NoCredentials",
    "NoSuchBucket",
    "NotFound",
    "Profile",
    "SignatureDoesNotMatch",
    "WebIdentityToken",
    "EACCES",
    "ENOTDIR",
    "EPERM",
    "EROFS",
}
"""Errors of a node without a role, credentials or the folder, which stay the same."""
