"""Checkpoints in S3, or in anything that speaks its protocol and knows conditional writes."""

from __future__ import annotations

from collections.abc import Iterable

from engine.checkpoint.storage import Storage
from engine.s3 import S3


class S3Storage(Storage):
    """Objects below the prefix of `s3://bucket/prefix`; endpoint and credentials as for all S3."""

    def __init__(self, url: str) -> None:
        self._s3 = S3.open(url)

    @property
    def url(self) -> str:
        """The URL, as it was given."""
        return self._s3.url

    def put(self, name: str, *parts: bytes | memoryview) -> None:
        """Write an object, over one of this name; no object is ever torn."""
        self._s3.put(name, b"".join(parts))

    def get(self, name: str) -> bytes:
        """A whole object; raises a StorageError that `is_missing` if there is none."""
        return self._s3.get(name)

    def create(self, name: str, data: bytes) -> bool:
        """Write an object unless the name has one; True if this call wrote it.

        After a StorageError it may be there or not.
        """
        return self._s3.create(name, data)

    def list(self, prefix: str) -> list[str]:
        """Names of all objects below this folder of names, in order."""
        return [key for key, _ in self._s3.list(prefix)]

    def delete(self, names: Iterable[str]) -> None:
        """Remove objects; missing ones are ignored."""
        self._s3.delete(list(names))
