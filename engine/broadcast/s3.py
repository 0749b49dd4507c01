"""S3: the publisher uploads a model's files, or names those that are there; each task downloads.

With `share_per_node`, the first task of each node downloads into the node's memory and the others
map it, as they do with Oka's own channels.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from engine.broadcast.backend import Node, Settings
from engine.broadcast.channels import taken
from engine.broadcast.relay import BlobRole
from engine.errors import ConfigError, ModelError
from engine.model import Descriptor, Fetched, File, Layout, MemoryLanding, Package, Part
from engine.network import Cancelled
from engine.s3 import S3


class S3Objects:
    """Models as objects below a URL. `folder` is the job's own, where they are uploaded."""

    def __init__(
        self,
        task_id: int,
        folder: str,
        node: Node | None,
        role: BlobRole | None,
        cancelled: threading.Event,
    ) -> None:
        self._task_id = task_id
        self._folder = folder
        self._node = node
        self._followed = frozenset(origin for origin, _ in role.leaders) if role else frozenset()
        self._has_followers = role is not None and role.followers > 0
        self._cancelled = cancelled
        self._threads: list[threading.Thread] = []
        self._failures: dict[tuple[int, int], Exception] = {}

    def publish(self, package: Package, number: int, settings: Settings) -> tuple[Layout, bytes]:
        """Upload the package's files, unless they are in S3 already."""
        if package.url is not None:
            package = listed(package, settings)
            url = str(package.url)
        elif settings.s3_url is None:
            raise ConfigError(
                "broadcast(via='s3') got a model that is not in S3, and s3_url is None",
                "broadcast(via='s3', s3_url='s3://bucket/prefix') says where to upload it",
            )
        else:
            url = f"{settings.s3_url.rstrip('/')}/{self._folder}/{number}"
            self._upload(package, S3.open(url, endpoint=settings.s3_endpoint))
        if settings.share_per_node and self._has_followers:
            self._share(package, self._task_id, number, consume=False)
            if package.url is None:
                self._threads[-1].join()  # the files may be gone once this has returned
        reference = {
            "url": url,
            "endpoint": settings.s3_endpoint,
            "share": settings.share_per_node,
        }
        return package.layout, json.dumps(reference).encode()

    def expect(self, descriptor: Descriptor) -> None:
        """Begin the download at once where other tasks wait for this one's."""
        url, endpoint, share = _reference(descriptor)
        if share and descriptor.origin not in self._followed:
            package = remote(descriptor.name, descriptor.layout, S3.open(url, endpoint=endpoint))
            self._share(package, descriptor.origin, descriptor.number, consume=True)

    def fetch(self, descriptor: Descriptor, timeout: float | None) -> Fetched:
        """The node's copy if it is shared; else download into memory of this process."""
        url, endpoint, share = _reference(descriptor)
        if share:
            try:
                return self._shared_by().get(descriptor.origin, descriptor.number, timeout)
            except Exception as error:
                raise self._failures.get((descriptor.origin, descriptor.number), error) from error
        layout = descriptor.layout
        landing = MemoryLanding(layout.size)
        store = S3.open(url, endpoint=endpoint)
        view = landing.view()
        _at_once(
            [
                (lambda file=file: self._download(store, file, view))  # type: ignore[misc]
                for file in layout.files
                if file.size
            ]
        )
        landing.advance(layout.size)
        return landing.finish()

    def discard(self, descriptor: Descriptor) -> bool:
        """Take it from the node, where the node keeps it."""
        share = _reference(descriptor)[2]
        return taken(self._node, descriptor) if share else True

    def finish(self) -> None:
        """What was uploaded is there; wait for what this task shares with its node."""
        for thread in self._threads:
            thread.join()
        for error in self._failures.values():
            raise error

    def close(self) -> None:
        """Downloads into the node's memory end with their next file."""
        for thread in self._threads:
            thread.join()

    def _upload(self, package: Package, store: S3) -> None:
        _at_once([(lambda part=part: self._put(part, package, store)) for part in package.parts])  # type: ignore[misc]

    def _put(self, part: Part, package: Package, store: S3) -> None:
        self._check_cancelled()
        if part.file is not None:
            part.file.check_unchanged()
            store.put_file(part.name, part.file.path)
            part.file.check_unchanged()
            return
        data = package.contiguous
        if data is None:
            landing = MemoryLanding(part.size)
            Package(package.name, package.layout, (_moved(part),)).write_to(landing)
            data = landing.finish()
        store.put(part.name, data)

    def _download(self, store: S3, file: File, view: memoryview) -> None:
        self._check_cancelled()
        store.get_into(file.name, view[file.offset : file.offset + file.size])

    def _share(self, package: Package, origin: int, number: int, *, consume: bool) -> None:
        """Write the package into the node's memory, in a thread of its own."""
        landing = self._shared_by().create(origin, number, package.layout.size, False, consume)

        def write() -> None:
            try:
                package.write_to(landing)
                landing.finish()
            except Exception as error:  # noqa: BLE001 - raised by whoever asks for the model
                self._failures[origin, number] = error
                landing.abort(f"{type(error).__name__}: {error}")

        thread = threading.Thread(target=write, name=f"oka-s3-{number}", daemon=True)
        thread.start()
        self._threads = [*(other for other in self._threads if other.is_alive()), thread]

    def _shared_by(self) -> Node:
        if self._node is None:
            raise ModelError(
                "share_per_node is True and this task has no blob node, expected one",
                "models travel from broadcast(via=…) to the operators right behind it",
            )
        return self._node

    def _check_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise Cancelled("the task was cancelled")


def listed(package: Package, settings: Settings) -> Package:
    """The package of a model that is in S3, its files listed; ModelError if there are none.

    Its `url` is the folder of them, also where the package's names a single object.
    """
    url = package.url
    assert url is not None
    objects = S3.open(url, endpoint=settings.s3_endpoint).list()
    if not objects:
        raise ModelError(
            f"there are no objects below {url!r}, expected a model's files",
            "name the prefix of the folder, such as s3://bucket/models/digits",
        )
    layout = Layout.of("folder", objects) if objects[0][0] else None
    if layout is None:  # the URL's own object has no name below it
        url, _, name = url.rstrip("/").rpartition("/")
        layout = Layout.of("file", [(name, objects[0][1])])
    found = remote(package.name, layout, S3.open(url, endpoint=settings.s3_endpoint))
    return replace(found, url=url)


def remote(name: str, layout: Layout, store: S3) -> Package:
    """A package whose files are downloaded as they are written."""
    parts = tuple(
        Part(
            file.name,
            file.offset,
            file.size,
            fill=lambda view, file=file: store.get_into(file.name, view),  # type: ignore[misc]
        )
        for file in layout.files
    )
    return Package(name, layout, parts)


def _moved(part: Part) -> Part:
    """The part by itself, at the start of a blob."""
    return Part(part.name, 0, part.size, part.file, part.buffers, part.fill)


def _reference(descriptor: Descriptor) -> tuple[str, str | None, bool]:
    try:
        reference: Any = json.loads(descriptor.reference)
        return reference["url"], reference["endpoint"], reference["share"]
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError(
            f"model {descriptor.name!r} has the reference {descriptor.reference!r:.200}, expected "
            "a URL with its endpoint"
        ) from error


def _at_once(jobs: Iterable[Callable[[], None]]) -> None:
    """Run them in a few threads; the first error, once all that had begun have ended."""
    jobs = list(jobs)
    if len(jobs) <= 1:
        for job in jobs:
            job()
        return
    with ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
        running = [pool.submit(job) for job in jobs]
        try:
            for future in running:
                future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


_FILES_AT_ONCE = 4
"""Large files are in parallel requests each; this is for the many small ones beside them."""
