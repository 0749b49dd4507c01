"""The entries of a log as files: numbered, each created once, read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.checkpoint.manifest import Manifest, seal, unseal
from engine.checkpoint.owner import Owner
from engine.checkpoint.storage import Storage, is_missing
from engine.errors import CheckpointError, ConfigError, StorageError


@dataclass(frozen=True)
class View:
    """A log at one moment."""

    url: str
    last: int
    """The number of the last entry; 0 in an empty log."""
    generation: int
    """The generation of the driver that made the last entry; where that entry cannot be read,
    the highest possible one."""
    base: int | None
    """The number of the epoch that a driver goes on from; a damaged one may be a claim."""
    epochs: Mapping[int, Manifest]
    """Epochs by their numbers, in order."""
    damaged: Mapping[int, CheckpointError]
    """Entries that cannot be read, by their numbers: epochs or claims."""
    owner: Owner | None
    """The last claim, if it can be read."""
    passed: list[str]
    """Names of claims that have a later claim."""

    def find(self, wanted: str | int) -> int:
        """The number of the epoch of this number, savepoint or damaged entry of this name."""
        for number, each in reversed(list(self.epochs.items())):
            if str(wanted) in (each.savepoint, str(each.epoch)):
                return number
        names = {entry(number): number for number in self.damaged}
        if str(wanted) in names:
            return names[str(wanted)]
        there = ", ".join(each.savepoint or str(each.epoch) for each in self.epochs.values())
        damaged = f"; damaged: {', '.join(names)}" if names else ""
        raise ConfigError(
            f"{self.url} has no epoch or savepoint {str(wanted)!r}, expected one of: "
            f"{there or 'none'}{damaged}",
            "`oka checkpoint list` shows them",
        )

    def manifest(self, number: int) -> Manifest:
        """The epoch of this number in the log; CheckpointError where it is damaged, or gone."""
        if number in self.damaged:
            raise self.damaged[number]
        return self.epochs[number]


class Entries:
    """Reads and creates entries; caches read entries, since they never change."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._contents: dict[int, dict[str, Any]] = {}

    def create(self, number: int, kind: str, content: Mapping[str, Any]) -> bool:
        """Create an entry; False if the number is another's."""
        return self._storage.create(entry(number), seal(kind, content))

    def last(self) -> int:
        """The number of the last entry."""
        return max(self._numbers(), default=0)

    def has(self, number: int) -> bool:
        """Whether an entry has this number."""
        return number in self._numbers()

    def read(self, number: int) -> dict[str, Any] | None:
        """The content of an entry, with its kind; None if it is gone."""
        if number not in self._contents:
            try:
                data = self._storage.get(entry(number))
            except StorageError as error:
                if is_missing(error):
                    return None
                raise
            self._contents[number] = unseal(entry(number), data)
        return self._contents[number]

    def view(self) -> View:
        """The log as it is now."""
        while True:
            numbers = self._numbers()
            found: dict[int, dict[str, Any]] = {}
            damaged: dict[int, CheckpointError] = {}
            for number in numbers:
                try:
                    content = self.read(number)
                except CheckpointError as error:
                    damaged[number] = error
                else:
                    if content is not None:
                        found[number] = content
            if len(found) + len(damaged) == len(numbers):
                break  # else another driver removes what is passed
        epochs = {
            number: Manifest.of({name: value for name, value in each.items() if name != "kind"})
            for number, each in found.items()
            if each["kind"] == "epoch"
        }
        last, read = max(numbers, default=0), max(found, default=0)
        claims = [number for number in found if number not in epochs]
        owner = found[claims[-1]].get("owner") if claims else None
        claim = None if last in epochs or last in damaged else found.get(last)
        return View(
            self._storage.url,
            last,
            # Each entry behind the last that can be read may be the claim of one more driver.
            generation=(found[read]["generation"] if found else 0) + last - read,
            base=(last or None) if claim is None else claim["base"],
            epochs=epochs,
            damaged=damaged,
            owner=None if owner is None else Owner.of(owner),
            passed=[entry(number) for number in claims[:-1]],
        )

    def _numbers(self) -> list[int]:
        names = (name.rpartition("/")[2] for name in self._storage.list("log"))
        numbers = [int(name) for name in names if name.isdecimal()]
        for number in self._contents.keys() - numbers:
            del self._contents[number]
        return numbers


def entry(number: int) -> str:
    """The name of an entry's file."""
    return f"log/{number:08}"
