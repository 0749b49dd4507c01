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
        """As it was given."""
        return self._s3.url

    def put(self, name: str, *parts: bytes | memoryview) -> None:
        """As the base says; no object is ever torn."""
        self._s3.put(name, b"".join(parts))

    def get(self, name: str) -> bytes:
        """As the base says."""
        return self._s3.get(name)

    def create(self, name: str, data: bytes) -> bool:
        """As the base says; after a StorageError it may be there or not."""
        return self._s3.create(name, data)

    def list(self, prefix: str) -> list[str]:
        """As the base says."""
        return [key for key, _ in self._s3.list(prefix)]

    def delete(self, names: Iterable[str]) -> None:
        """As the base says."""
        self._s3.delete(list(names))
