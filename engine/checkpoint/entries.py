"""The entries of a log as files: numbered, each created once, read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.checkpoint.manifest import Manifest, seal, unseal
from engine.checkpoint.storage import Storage, is_missing
from engine.errors import ConfigError, StorageError


@dataclass(frozen=True)
class View:
    """A log at one moment."""

    url: str
    last: int
    """The number of the last entry; 0 in an empty log."""
    generation: int
    """Of the driver that made it."""
    base: int | None
    """The number of the epoch that a driver goes on from."""
    epochs: Mapping[int, Manifest]
    """By their numbers, in order."""
    passed: list[str]
    """Names of claims that others came behind."""

    def find(self, wanted: str | int) -> int:
        """The number of the epoch of this number, or of the savepoint of this name."""
        for number, each in reversed(list(self.epochs.items())):
            if str(wanted) in (each.savepoint, str(each.epoch)):
                return number
        there = ", ".join(each.savepoint or str(each.epoch) for each in self.epochs.values())
        raise ConfigError(
            f"{self.url} has no epoch or savepoint {str(wanted)!r}, expected one of: "
            f"{there or 'none'}",
            "`oka checkpoint list` shows them",
        )


class Entries:
    """Reads and creates entries; what is read is kept, for it never changes."""

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
        """All that there is now."""
        while True:
            numbers = self._numbers()
            contents = {number: self.read(number) for number in numbers}
            found = {number: each for number, each in contents.items() if each is not None}
            if len(found) == len(numbers):  # else another driver removes what is passed
                break
        epochs = {
            number: Manifest.of({name: value for name, value in each.items() if name != "kind"})
            for number, each in found.items()
            if each["kind"] == "epoch"
        }
        last = numbers[-1] if numbers else 0
        return View(
            self._storage.url,
            last,
            generation=found[last]["generation"] if numbers else 0,
            base=last if last in epochs else found[last]["base"] if numbers else None,
            epochs=epochs,
            passed=[entry(number) for number in numbers[:-1] if number not in epochs],
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
