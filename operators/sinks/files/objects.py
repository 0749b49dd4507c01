"""Files of a sink as objects in S3: multipart uploads, which are invisible until completed.

An upload whose task was killed would stay for good, and cost money: no listing of objects has it.
So each upload has a small object with its staged name, which identifies the upload. A task that
finds such an object of a dead upload aborts the upload. A task that is killed before it has written
that object leaves an upload without parts, which costs nothing.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, BinaryIO, cast

from engine.checkpoint.storage import is_missing
from engine.errors import ConfigError, GraphError, StorageError
from engine.s3 import S3, split_url
from engine.system import another_path_of
from operators.sinks.files.places import BUFFER, CLAIM, Draft, Hold, Place


class S3Prefix(Place):
    """Objects below s3://bucket/prefix; endpoint and credentials are those of each task."""

    def __init__(self, url: str) -> None:
        try:
            self._where = split_url(url)
        except ConfigError as error:
            raise GraphError(error.message, error.hint) from None

    def __reduce__(self) -> tuple[Any, ...]:
        return S3Prefix, (self.url,)

    @property
    def url(self) -> str:
        """The URL as users write it, without a slash at its end."""
        return "s3://" + "/".join(filter(None, self._where))

    @cached_property
    def s3(self) -> S3:
        """The client of this process."""
        return S3.open(self.url)

    def validate(self) -> None:
        """Check nothing: the driver may have no credentials, and needs none."""

    def is_same(self, other: Place) -> bool:
        """Whether the other is the same bucket and prefix."""
        return isinstance(other, S3Prefix) and self._where == other._where

    def holds(self, other: Place) -> bool:
        """Whether the other is a longer prefix of the same bucket."""
        return (
            isinstance(other, S3Prefix)
            and not self.is_same(other)
            and f"{other.url}/".startswith(f"{self.url}/")
        )

    def make(self) -> None:
        """Raise StorageError if the bucket or the credentials do not work."""
        self.names()

    def names(self, folders: str = "") -> Iterable[str]:
        """The names of all objects, by one listing, without uploads that are not completed."""
        wanted = [["?*"], [*folders.split("/"), "?*"]] if folders else [["?*"]]
        keys = ((key, key.split("/")) for key, _ in self.s3.list())
        return [key for key, parts in keys if any(_matches(parts, each) for each in wanted)]

    def has(self, name: str) -> bool:
        """Whether there is such an object."""
        return self._size(name) is not None

    def open(self, temporary: str) -> Draft:
        """Begin a file without a name, on this machine."""
        return _ObjectDraft(self)

    def finish(self, staged: str, final: str, token: str) -> bool:
        """Complete the upload; also True if an earlier completion succeeded without an answer."""
        if not token:
            return False
        upload, size, *tags = json.loads(token)
        is_done = True
        try:
            self.s3.complete_upload(final, upload, tags)
        except StorageError as error:
            if error.code != "NoSuchUpload":
                raise
            is_done = self._size(final) == size
        self.s3.delete([staged])
        return is_done

    def drop(self, names: Iterable[str]) -> None:
        """Remove objects of these names, and abort their uploads."""
        found = list(names)
        for name in found:
            if name.startswith(".") and not name.endswith(CLAIM):
                self._abort(name)
        if found:
            self.s3.delete(found)

    def hold(self, name: str, text: str) -> Hold:
        """Write a small object; objects have no locks."""
        self.write(name, text)
        return Hold()

    def is_held(self, name: str) -> bool | None:
        """None: objects have no locks."""
        return None

    def read(self, name: str) -> str | None:
        """The text of a small object; None if there is none."""
        try:
            return self.s3.get(name).decode()
        except StorageError as error:
            if not is_missing(error):
                raise
            return None

    def write(self, name: str, text: str) -> None:
        """Write a small object."""
        self.s3.put(name, text.encode())

    def gone(self) -> OSError:
        """The error for a task whose upload, or its small object, is gone."""
        return FileNotFoundError(
            f"an upload to {self.url}, or what says whose it is, was aborted or removed while the "
            "job runs, expected it to stay until the job has ended\n\n"
            "hint: does a rule of the bucket abort uploads after a time, or did another job write "
            "there? Run the job again, with a prefix of its own"
        )

    def _abort(self, staged: str) -> None:
        try:
            final, upload = json.loads(self.s3.get(staged))
        except StorageError as error:
            if not is_missing(error):
                raise
        else:
            self.s3.abort_upload(final, upload)

    def _size(self, name: str) -> int | None:
        try:
            return self.s3.size(name)
        except StorageError as error:
            if not is_missing(error):
                raise
            return None


class _ObjectDraft(Draft):
    """A file without a name: the key of an object has its epoch, which is not known before."""

    def __init__(self, prefix: S3Prefix) -> None:
        self._s3 = prefix.s3
        self._begun: tuple[str, str, str] | None = None
        """An upload that must be aborted before the file is staged again: its two names, and the
        upload."""
        self.file = cast(BinaryIO, tempfile.TemporaryFile(buffering=BUFFER))  # noqa: SIM115

    def stage(self, staged: str, final: str) -> str:
        self._forget()
        self.file.flush()
        descriptor = self.file.fileno()
        upload = self._s3.begin_upload(final)
        self._begun = staged, final, upload
        try:
            self._s3.put(staged, json.dumps([final, upload]).encode())
            tags = self._s3.fill_upload(final, upload, another_path_of(descriptor))
        except BaseException:
            with suppress(StorageError):  # otherwise the next call does it, or a later job
                self._forget()
            raise
        size = os.fstat(descriptor).st_size
        self.file.close()
        return json.dumps([upload, size, *tags])

    def _forget(self) -> None:
        if self._begun is not None:
            staged, final, upload = self._begun
            self._s3.abort_upload(final, upload)
            self._s3.delete([staged])
            self._begun = None


def _matches(parts: list[str], levels: list[str]) -> bool:
    return len(parts) == len(levels) and all(map(fnmatchcase, parts, levels))
