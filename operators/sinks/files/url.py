"""The place of files for a folder or a URL."""

from __future__ import annotations

import os
from pathlib import Path

from engine.errors import GraphError
from operators.sinks.files.places import Folder, Place


def place_of(where: str | os.PathLike[str]) -> Place:
    """The place of a folder or of s3://bucket/prefix; raises GraphError for others."""
    text = os.fspath(where)
    if text.startswith("s3://"):
        from operators.sinks.files.objects import S3Prefix  # here: most jobs never talk to S3

        return S3Prefix(text)
    if text.startswith("s3:/"):
        raise GraphError(
            f"the folder is {where!r}, expected a folder or s3://bucket/prefix",
            "give s3://… as a text: a Path has one slash where there were two",
        )
    if "://" in text or not text:
        raise GraphError(f"the folder is {text!r}, expected a folder or s3://bucket/prefix")
    return Folder(Path(text))
