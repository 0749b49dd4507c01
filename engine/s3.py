"""Objects in S3, or in anything that speaks its protocol: the other door to the Rust core.

`S3.open("s3://bucket/prefix")` reads and writes whole objects below a prefix, in parallel ranges.
`engine.programs.s3_server` has a server of our own on a folder, for development and tests.

Credentials come from where the AWS tools find them: the environment, the profile of ~/.aws, a web
identity token (IRSA), the container, the instance; `role_arn` is assumed with these.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from engine._native import S3Client, StorageFailed
from engine.errors import ConfigError, StorageError

if TYPE_CHECKING:
    import numpy as np
    from typing_extensions import Buffer as PlainBuffer

    # NumPy's arrays are buffers in every version of Python, for its types only from 3.12.
    Buffer: TypeAlias = PlainBuffer | np.ndarray[Any, Any]

__all__ = ["S3"]


class S3:
    """A bucket and prefix. Thread-safe; each call waits, without the GIL, until all is done.

    Every call raises StorageError, which names endpoint, bucket and key and what S3 answered.
    Requests are tried again after errors of the server and of the network. Ctrl-C ends a call soon.
    """

    def __init__(self, client: S3Client, bucket: str, prefix: str) -> None:
        self._client = client
        self.bucket = bucket
        self.prefix = prefix

    @classmethod
    def open(
        cls,
        url: str,
        *,
        endpoint: str | None = None,
        region: str | None = None,
        role_arn: str | None = None,
        parallel: int = 8,
        part_bytes: int = 8 << 20,
        retries: int = 6,
    ) -> S3:
        """The bucket and prefix of `s3://bucket/prefix`; asks nobody yet.

        `endpoint` is by default that of AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the profile, else
        AWS. `role_arn` is assumed at the token service of AWS_ENDPOINT_URL_STS, AWS_ENDPOINT_URL,
        or at `endpoint` where that is not one of AWS. `parallel` ranges of `part_bytes` are on
        their way at one moment; each costs one request. `retries`: after errors that may pass, with
        pauses from 0.1 s that double up to 5 s. Raises ConfigError, StorageError.
        """
        bucket, prefix = split_url(url)
        if parallel < 1 or part_bytes < 1 or retries < 0:
            raise ConfigError(
                f"parallel={parallel}, part_bytes={part_bytes}, retries={retries}: expected at "
                "least 1, 1 and 0"
            )
        if endpoint is not None and not re.match(r"https?://[^/]", endpoint):
            raise ConfigError(
                f"the endpoint is {endpoint!r}, expected a URL", "such as http://127.0.0.1:9000"
            )
        with _told(endpoint, bucket, None):
            client = S3Client(
                bucket,
                prefix,
                endpoint=endpoint,
                region=region,
                role_arn=role_arn,
                parallel=parallel,
                part_bytes=part_bytes,
                retries=retries,
            )
        return cls(client, bucket, prefix)

    @property
    def endpoint(self) -> str:
        """Where requests go."""
        return self._client.endpoint

    @property
    def url(self) -> str:
        """`s3://bucket/prefix`."""
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")

    def list(self, prefix: str = "") -> list[tuple[str, int]]:
        """Key, relative to the URL's prefix, and bytes of every object below `prefix`, in order.

        `prefix` counts in whole parts between slashes. Where the URL names one object rather than a
        folder of them, that is listed, with the key "". Empty objects that some tools make in place
        of folders are left out.
        """
        return [(key, size) for key, size, _ in self.versions(prefix)]

    def versions(self, prefix: str = "") -> Sequence[tuple[str, int, str]]:
        """As `list`, with the tag of each object's version (its ETag)."""
        with self._told(prefix or None):
            return self._client.list(prefix)

    def size(self, key: str) -> int:
        """Bytes of an object."""
        with self._told(key):
            return self._client.size(key)

    def get_into(self, key: str, buffer: Buffer) -> None:
        """Fill a writable buffer with the object, which must have its size.

        The ranges are all of one version: an object that is replaced meanwhile is an error. After
        an error, parts of the buffer are filled.
        """
        with _flat(buffer) as data, self._told(key):
            self._client.get_into(key, data)

    def get_part_into(self, key: str, start: int, tag: str, buffer: Buffer) -> None:
        """Fill a writable buffer with the bytes from `start` on of the version with this tag.

        An object that was replaced since is an error of the code `Changed`.
        """
        with _flat(buffer) as data, self._told(key):
            self._client.get_part_into(key, start, tag, data)

    def get(self, key: str) -> bytes:
        """A whole object. It is copied once more than with `get_into`."""
        data = bytearray(self.size(key))
        self.get_into(key, data)
        return bytes(data)

    def put(self, key: str, data: Buffer) -> None:
        """Write an object, in parallel parts where it is large; it is there whole or not at all."""
        with _flat(data) as flat, self._told(key):
            self._client.put(key, flat)

    def create(self, key: str, data: Buffer) -> bool:
        """Write an object in one request unless the key has one; True if this call wrote it.

        Of any number of callers on any machines, one gets True. After an error, the object may be
        there or not.
        """
        with _flat(data) as flat, self._told(key):
            return self._client.create(key, flat)

    def put_file(self, key: str, path: str | os.PathLike[str]) -> None:
        """Write a file's content as an object, without holding it all in memory."""
        with self._told(key):
            self._client.put_file(key, os.fspath(path))

    def begin_upload(self, key: str) -> str:
        """Begin an upload in parts, and give its id; there is an object once it is completed.

        What is not completed stays, and is in no listing: `abort_upload` it.
        """
        with self._told(key):
            return self._client.begin_upload(key)

    def fill_upload(self, key: str, upload: str, path: str | os.PathLike[str]) -> Sequence[str]:
        """Send a file's content to an upload; the tags of its parts, which complete it."""
        with self._told(key):
            return self._client.fill_upload(key, upload, os.fspath(path))

    def complete_upload(self, key: str, upload: str, tags: Sequence[str]) -> None:
        """Make the object of an upload, in place of one that there was.

        A StorageError of the code `NoSuchUpload` says that it was completed or aborted before.
        """
        with self._told(key):
            self._client.complete_upload(key, upload, list(tags))

    def abort_upload(self, key: str, upload: str) -> None:
        """Forget an upload and the parts sent to it; a missing one is ignored."""
        with self._told(key):
            self._client.abort_upload(key, upload)

    def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; missing ones are ignored."""
        with self._told(keys[0] if len(keys) == 1 else None):
            self._client.delete(list(keys))

    def _told(self, key: str | None) -> _told:
        whole = "/".join(part for part in (self.prefix, key) if part) if key is not None else None
        return _told(self.endpoint, self.bucket, whole)


def split_url(url: str) -> tuple[str, str]:
    """Bucket and prefix of `s3://bucket/prefix`, the prefix without slashes around it."""
    found = re.fullmatch(r"s3://([^/]+)(?:/(.*))?", url)
    if found is None:
        raise ConfigError(f"the URL is {url!r}, expected s3://bucket/prefix")
    return found[1], (found[2] or "").strip("/")


@contextmanager
def _flat(buffer: Buffer) -> Iterator[memoryview]:
    """The buffer as bytes; TypeError where it is not contiguous."""
    with memoryview(cast("PlainBuffer", buffer)) as view:
        if view.nbytes == 0:  # which cannot be cast
            yield memoryview(bytearray())
            return
        with view.cast("B") as flat:
            yield flat


class _told:  # noqa: N801 - it is used as a function, and leaves no frame of contextlib's behind
    """Turns what fails into StorageError that names where it did."""

    def __init__(self, endpoint: str | None, bucket: str, key: str | None) -> None:
        self._place = f"s3://{bucket}" + (f"/{key}" if key is not None else "")
        self._at = f" at {endpoint}" if endpoint is not None else ""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, failed: BaseException | None, _traceback: object
    ) -> None:
        """Raise the error of ours in place of the other."""
        if not isinstance(failed, StorageFailed):
            return
        message, code = failed.args
        if code == "File":
            raise StorageError(
                f"a file of this machine, to be written to {self._place}, cannot be read: "
                f"{message}",
                "check the path; S3 had no part in it",
                code=code,
            ) from None
        raise StorageError(f"{self._place}{self._at}: {message}", _hint(code), code=code) from None


def _hint(code: str) -> str | None:
    hint, host = _HINTS.get(code), _host_of_ray()
    if hint is None or host is None or code not in _OF_ENVIRONMENT:
        return hint
    return f"{hint}. {_ON_RAY.format(host=host)}"


def _host_of_ray() -> str | None:
    """Where this process is, if it is a worker of Ray's."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized() or ray.util.client.ray.is_connected():
        return None
    worker = ray._private.worker.global_worker
    return str(worker.node.node_ip_address) if worker.mode == ray.WORKER_MODE else None


_KEYS = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile of AWS_PROFILE"
_HINTS = {
    "SignatureDoesNotMatch": f"the secret key is not that of the access key: see {_KEYS}",
    "InvalidAccessKeyId": f"this endpoint does not know the access key: see {_KEYS}",
    "AccessDenied": "these credentials do not allow it: check the policy of the bucket or the role",
    "ExpiredToken": "the temporary credentials have ended: fetch new ones",
    "InvalidToken": "AWS_SESSION_TOKEN does not belong to the access key: unset it, or fetch new "
    "temporary credentials",
    "InvalidIdentityToken": "the token in AWS_WEB_IDENTITY_TOKEN_FILE is not accepted there",
    "RequestTimeTooSkewed": "the clocks of this machine and the endpoint differ: set them",
    "InvalidBucketName": "3 to 63 lower-case letters, digits, dots and dashes",
    "NoSuchBucket": "create the bucket first, or check its name and the endpoint",
    "NoSuchKey": "check the key and the prefix of the URL; keys are case-sensitive",
    "NotFound": "check bucket, key and endpoint",
    "NoCredentials": f"set {_KEYS}; `oka s3 serve` prints the ones that it takes",
    "CredentialProcess": "run the command of the profile alone, in this environment",
    "Changed": "write new versions under new keys, or read again",
    "InsufficientStorage": "the disk of the server is full, or its quota is used up",
    "Unreachable": "does the endpoint run and is it right? See AWS_ENDPOINT_URL_S3 and "
    "AWS_ENDPOINT_URL",
    "PermanentRedirect": "the bucket is in another region: set AWS_REGION",
    "AuthorizationHeaderMalformed": "the bucket is in another region: set AWS_REGION",
}
_OF_ENVIRONMENT = frozenset(_HINTS) - {
    "InvalidBucketName",
    "NoSuchKey",
    "Changed",
    "InsufficientStorage",
}
"""What another environment, or another role, may answer differently."""
_ON_RAY = (
    "On Ray, the worker on host {host} has the environment and the role of its node, not the "
    "driver's: give nodes a role (IRSA, an instance profile), or call "
    "ray.init(runtime_env={{'env_vars': {{…}}}}) before the job"
)
