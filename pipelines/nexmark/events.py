"""Nexmark's events: persons, auctions and bids, from the published generator or from files.

The generator is the program `rust/nexmark`, which `make nexmark` builds; it is not in the installed
package. Files, once written, do not need it.
"""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import engine
from engine.columns import import_pyarrow
from engine.graph.checks import check_integer
from engine.programs import built

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal["person", "auction", "bid"]


@dataclass(frozen=True)
class Events:
    """The first `events` events. Of fifty events, one is a person and three are auctions.

     `rate` events are one second of event time. Events of a kind are in the order of their times,
    but groups of `disorder` consecutive ones are shuffled; 1: none. Tasks divide blocks of `block`
    events of one kind among them. Event n follows from n alone, so that a task can begin anywhere,
    and all runs have the same events.
    """

    events: int
    rate: int = 10_000
    disorder: int = 1
    block: int = 4096
    folder: str | None = None
    """The folder of their files, made by `write`; None: each task generates its events."""

    def __post_init__(self) -> None:
        check_integer("events", self.events, 0)
        for name in ("rate", "disorder", "block"):
            check_integer(name, getattr(self, name), 1)

    @classmethod
    def read(cls, folder: str | Path) -> Events:
        """The events in the files of a folder. Raises ConfigError if there are none."""
        pyarrow = import_pyarrow("Nexmark's files")
        path = _file(folder, "bid")
        if not path.exists():
            hint = "Events(1_000_000).write(folder) writes them"
            raise engine.ConfigError(
                f"there is no {path}, expected files of Nexmark's events", hint
            )
        with pyarrow.OSFile(str(path)) as file:
            told = pyarrow.ipc.open_file(file).schema.metadata or {}
        if not all(name.encode() in told for name in _NUMBERS):
            hint = "Events(1_000_000).write(folder) writes them anew"
            raise engine.ConfigError(f"{path} is not of Nexmark's events", hint)
        numbers = {name: int(told[name.encode()]) for name in _NUMBERS}
        return cls(**numbers, folder=str(Path(folder).absolute()))

    def write(self, folder: str | Path) -> Events:
        """Write a file of Arrow IPC for each kind, whole or not at all; the events in them."""
        pyarrow = import_pyarrow("Nexmark's files")
        Path(folder).mkdir(parents=True, exist_ok=True)
        told = {name: str(getattr(self, name)) for name in _NUMBERS}
        for kind in KINDS:
            path = _file(folder, kind)
            partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
            schema = _schema(kind).with_metadata(told)
            with pyarrow.ipc.new_file(str(partial), schema) as file:
                for batch in self.batches(kind, 0, 1):
                    file.write(batch.replace_schema_metadata(told))
            partial.replace(path)
        return type(self).read(folder)

    def batches(self, kind: Kind, first: int, step: int) -> Iterator[pa.RecordBatch]:
        """Every `step`-th block of a kind, from number `first` on."""
        return (self._generated if self.folder is None else self._filed)(kind, first, step)

    def out_of_orderness(self, kind: Kind) -> timedelta:
        """How much earlier an event may be than one before it."""
        if self.disorder == 1:
            return timedelta(0)
        return self.time_of(self.disorder * EVERY // OF_EVERY[kind] + EVERY)

    @property
    def longest_auction(self) -> timedelta:
        """The longest duration of an auction."""
        return 2 * self.time_of(_IN_FLIGHT * EVERY // OF_EVERY["auction"] + 1)

    def time_of(self, events: int) -> timedelta:
        """The event time of so many events of all kinds, rounded up."""
        return timedelta(milliseconds=1000 * events // self.rate + 2)

    def _filed(self, kind: Kind, first: int, step: int) -> Iterator[pa.RecordBatch]:
        pyarrow = import_pyarrow("Nexmark's files")
        assert self.folder is not None
        with pyarrow.memory_map(str(_file(self.folder, kind))) as mapped:
            file = pyarrow.ipc.open_file(mapped)
            for number in range(first, file.num_record_batches, step):
                yield file.get_batch(number)

    def _generated(self, kind: Kind, first: int, step: int) -> Iterator[pa.RecordBatch]:
        numbers = (self.events, self.rate, self.block, self.disorder, first, step)
        command = [str(program()), kind, *map(str, numbers)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            try:
                while process.stdout.peek(1):  # type: ignore[attr-defined]  # it is buffered
                    (rows,) = struct.unpack("<q", _read(process.stdout, 8))
                    yield _columns(kind, rows, process.stdout)
            except BaseException:
                process.kill()
                raise
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with status {process.returncode}")


def program() -> Path:
    """The generator. Raises ConfigError if it is not built."""
    path = ROOT / "target" / "release" / "oka-nexmark"
    how = "`make nexmark` builds it in a checkout"
    return built("Nexmark's generator", "OKA_NEXMARK", path, how)


def _columns(kind: Kind, rows: int, stream: IO[bytes]) -> pa.RecordBatch:
    """The next block of a stream, whose buffers become columns without a copy."""
    pyarrow = import_pyarrow("Nexmark's events")
    numbers, texts = COLUMNS[kind]
    columns: list[Any] = []
    for _ in numbers:
        buffers = [None, pyarrow.py_buffer(_read(stream, 8 * rows))]
        columns.append(pyarrow.Array.from_buffers(pyarrow.int64(), rows, buffers))
    for _ in texts:
        offsets = _read(stream, 4 * (rows + 1))
        text = _read(stream, struct.unpack_from("<i", offsets, 4 * rows)[0])
        buffers = [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(text)]
        columns.append(pyarrow.Array.from_buffers(pyarrow.string(), rows, buffers))
    return pyarrow.RecordBatch.from_arrays(columns, schema=_schema(kind))


def _read(stream: IO[bytes], size: int) -> bytes:
    """Read so many bytes. Raises an error at an early end, since columns are not checked again."""
    found = stream.read(size)
    if len(found) < size:
        raise RuntimeError("Nexmark's generator ended in the middle of a block")
    return found


def _schema(kind: Kind) -> pa.Schema:
    pyarrow = import_pyarrow("Nexmark's events")
    numbers, texts = COLUMNS[kind]
    types = [*((name, pyarrow.int64()) for name in numbers)]
    return pyarrow.schema([*types, *((name, pyarrow.string()) for name in texts)])


def _file(folder: str | Path, kind: Kind) -> Path:
    return Path(folder) / f"{kind}.arrow"


COLUMNS: dict[Kind, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "person": (
        ("id", "date_time"),
        ("name", "email_address", "credit_card", "city", "state", "extra"),
    ),
    "auction": (
        ("id", "initial_bid", "reserve", "date_time", "expires", "seller", "category"),
        ("item_name", "description", "extra"),
    ),
    "bid": (("auction", "bidder", "price", "date_time"), ("channel", "url", "extra")),
}
"""The columns of a kind, numbers before texts; times are in milliseconds since 1970."""

KINDS: tuple[Kind, ...] = ("person", "auction", "bid")
EVERY = 50
OF_EVERY: dict[Kind, int] = {"person": 1, "auction": 3, "bid": 46}
"""The number of events of a kind in `EVERY` events."""
_NUMBERS = ("events", "rate", "disorder", "block")
_IN_FLIGHT = 100
"""Auctions that are open at once in the generator."""
ROOT = Path(__file__).parents[2]
