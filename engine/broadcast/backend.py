"""The interface of a backend that moves models, and its settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from engine.errors import ConfigError
from engine.model import Descriptor, Fetched, Layout, Package


@dataclass(frozen=True)
class Publisher:
    """The declaration of an operator that publishes models by the backend `via`.

    With `relays`, tasks hand the bytes of models to each other.
    """

    via: str
    relays: bool = False


@dataclass(frozen=True)
class Settings:
    """Settings of a broadcast; `s3_url` and `share_per_node` are for `via="s3"`."""

    s3_url: str | None = None
    """Where models are uploaded: `s3://bucket/prefix`. Each job has a folder of its own there,
    which stays. Models that are in S3 already need none."""
    s3_endpoint: str | None = None
    """Server to use in place of AWS, such as `http://127.0.0.1:9000`. None: AWS_ENDPOINT_URL_S3 or
    AWS_ENDPOINT_URL, where set."""
    share_per_node: bool = False
    """s3: one task of each node downloads, the others map its memory. False: each downloads."""

    def __post_init__(self) -> None:
        url = self.s3_url
        if url is not None and not (
            isinstance(url, str) and url.startswith("s3://") and url[5:].strip("/")
        ):
            raise ConfigError(f"s3_url is {url!r}, expected such as 's3://bucket/prefix'")
        endpoint = self.s3_endpoint
        if endpoint is not None and not (
            isinstance(endpoint, str) and endpoint.startswith(("http://", "https://"))
        ):
            raise ConfigError(
                f"s3_endpoint is {endpoint!r}, expected such as 'http://127.0.0.1:9000'"
            )
        if not isinstance(self.share_per_node, bool):
            raise ConfigError(f"share_per_node is {self.share_per_node!r}, expected True or False")


class Backend(Protocol):
    """One way to move models. `publish` and `finish` run in the task's thread, `fetch` in any."""

    def publish(self, package: Package, number: int, settings: Settings) -> tuple[Layout, bytes]:
        """Take the bytes; the final layout, and the `reference` of the descriptor.

        They need not be delivered when it returns.
        """

    def expect(self, descriptor: Descriptor) -> None:
        """A descriptor has arrived in this task; never waits."""

    def fetch(self, descriptor: Descriptor, timeout: float | None) -> Fetched:
        """The bytes, once they are there; TimeoutError if they are not within so many seconds.

        Called until it has returned or failed once, in a receiving task.
        """

    def discard(self, descriptor: Descriptor) -> bool:
        """Give up a model that this task will not read; False if it is to be asked again later."""

    def finish(self) -> None:
        """Wait until all that was published is delivered, as far as it needs this task."""

    def close(self) -> None:
        """Let go of everything; idempotent."""


Node = Any
"""A `BlobNode` of engine.network."""
