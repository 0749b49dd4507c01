"""The storage that a text names."""

from __future__ import annotations

import os
from pathlib import Path

from engine.checkpoint.storage import FolderStorage, Storage
from engine.errors import ConfigError


def open_storage(url: str | os.PathLike[str]) -> Storage:
    """The storage in a folder, which need not exist yet, or in S3. Raises ConfigError."""
    text = os.fspath(url)
    if not text:
        raise ConfigError("the place of checkpoints is '', expected a folder or s3://bucket/prefix")
    if text.startswith("s3://"):
        from engine.checkpoint.s3 import S3Storage  # here: most jobs never talk to S3

        return S3Storage(text)
    if "://" in text:
        raise ConfigError(
            f"the place of checkpoints is {text!r}, expected a folder or s3://bucket/prefix"
        )
    return FolderStorage(Path(text))
