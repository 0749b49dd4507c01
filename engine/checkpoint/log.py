"""The log of a job: epochs and drivers in one order, which all drivers agree on.

    log/00000001        a claim or an epoch, created conditionally
    data/00000007/…     snapshots of tasks at epoch 7
    committed/00000009  the sinks have committed the epoch of log/00000009

A driver claims the next number before it starts. Whoever it took the job over from then finds that
number taken, and is fenced. So of two drivers that both believe to be the one, one goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from engine.checkpoint.entries import Entries, View, entry
from engine.checkpoint.manifest import Manifest
from engine.checkpoint.owner import Owner
from engine.checkpoint.requests import Requests
from engine.checkpoint.storage import Storage
from engine.errors import CheckpointError, ConfigError, Fenced

KEEP = 3
"""Epochs that stay beside savepoints."""


@dataclass(frozen=True)
class Claim:
    """A driver's right to go on with the job, until another claims it."""

    generation: int
    """Counts drivers from 1."""
    next_epoch: int
    """Above every epoch that was ever stored."""
    manifest: Manifest | None
    """The epoch that it goes on from; None is the beginning."""


class CheckpointLog:
    """The epochs of one job, as one driver sees them. One thread at a time.

    Invariant: once `store` has returned, every later driver goes on from that epoch or a later one.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._entries = Entries(storage)
        self._requests = Requests(storage)
        self._next = 0  # the number of the log that this driver has to create
        self._claimed = 0  # that of its claim
        self._generation = 0
        self._number_of: dict[int, int] = {}  # of epochs, in the log

    def claim(self, resume: str | int | None = None, *, job: str = "") -> Claim:
        """Take over the job, to go on from `resume`; before any task starts.

        "latest" is the last epoch, or the beginning where there is none; else the name of a
        savepoint or the number of an epoch. None is the beginning, and ConfigError if there are
        epochs. Unfinished work of former drivers is removed.
        """
        while True:
            view = self._entries.view()
            base = _resumed(resume, view)
            number, generation = view.last + 1, view.generation + 1
            owner = Owner.here(job).to_dict()
            content = {"generation": generation, "base": base, "job": job, "owner": owner}
            # Where others have come further meanwhile, the number may have been free again.
            if self._entries.create(number, "claim", content) and self._entries.last() == number:
                break
        self._next, self._generation = number + 1, generation
        self._claimed = number
        manifest = None if base is None else view.epochs[base]
        self._number_of = {each.epoch: number for number, each in view.epochs.items()}
        if base is not None and manifest is not None:
            self._number_of[manifest.epoch] = base
        self._sweep()
        markers = {*map(_marker, (*view.epochs, *view.damaged))}
        others = {*self._storage.list("committed")} - markers
        self._storage.delete(others)  # of a driver whose checkpoints were removed under it
        self._storage.sweep()
        self._requests.refuse_all("the job's driver began anew meanwhile: ask again")
        return Claim(generation, 1 + self._highest_epoch(view), manifest)

    @property
    def claimed(self) -> str:
        """The file of the claim: each worker of this driver has to see it."""
        return entry(self._claimed)

    def store(self, manifest: Manifest) -> None:
        """Store an epoch, from which later drivers go on. Raises Fenced, StorageError.

        After a StorageError it may be stored or not; the same manifest may be stored again, or the
        next.
        """
        assert self._next, "a driver claims the job before it stores"
        content = {**manifest.to_dict(), "generation": self._generation}
        while not self._entries.create(self._next, "epoch", content):
            found = self._entries.read(self._next)
            if found is None:  # removed since
                continue
            if self._is_of_another(found):
                raise self._fenced()
            # One of its own, by a call that failed: this epoch, or the one before it.
            if found["epoch"] == manifest.epoch:
                break
            self._number_of[found["epoch"]] = self._next
            self._next += 1
        if self._entries.last() > self._next:  # the claim that had this number is gone again
            raise self._fenced()
        if not self._entries.has(self._next - 1):  # what a driver goes on from stays, else all went
            self._storage.delete([entry(self._next)])
            raise Fenced(
                f"all checkpoints in {self._storage.url} were removed under the job",
                "this one ends; the next that is given the folder begins anew",
            )
        self._number_of[manifest.epoch] = self._next
        self._next += 1

    def verify(self) -> None:
        """Raise Fenced if another driver has taken the job over."""
        for number in range(self._next, self._entries.last() + 1):
            found = self._entries.read(number)
            if found is not None and self._is_of_another(found):
                raise self._fenced()

    def mark_committed(self, epoch: int) -> None:
        """Say that all sinks have committed the epoch."""
        self._storage.put(_marker(self._number_of[epoch]), b"")

    def committed(self) -> set[int]:
        """The epochs that all sinks have committed."""
        marked = {name.rpartition("/")[2] for name in self._storage.list("committed")}
        epochs = self._entries.view().epochs
        return {each.epoch for number, each in epochs.items() if f"{number:08}" in marked}

    @property
    def exists(self) -> bool:
        """Whether any driver ever claimed the job."""
        return self._entries.last() > 0

    def find(self, wanted: str | int | None = None) -> Manifest:
        """The epoch of this number, the savepoint of this name, or the last; else ConfigError.

        CheckpointError where it is damaged.
        """
        view = self._entries.view()
        if wanted is None and (view.epochs or view.damaged):
            is_damaged = view.last in view.damaged
            return view.manifest(view.last if is_damaged else max(view.epochs))
        return view.manifest(view.find("latest" if wanted is None else wanted))

    def manifests(self) -> list[Manifest]:
        """All epochs that are kept, the oldest first."""
        return list(self._entries.view().epochs.values())

    def damaged(self) -> dict[str, str]:
        """The damage of entries that cannot be read, by their names: epochs or claims."""
        damaged = self._entries.view().damaged
        return {entry(number): error.message for number, error in damaged.items()}

    def savepoints(self) -> dict[str, Manifest]:
        """Epochs with a name."""
        return {each.savepoint: each for each in self.manifests() if each.savepoint is not None}

    def retain(self, keep: int = KEEP) -> None:
        """Remove all but the newest epochs, savepoints, and what a driver goes on from."""
        view = self._entries.view()
        if view.last in view.damaged:  # a claim, perhaps, and nobody knows of which epoch
            return
        unnamed = [number for number, each in view.epochs.items() if each.savepoint is None]
        old = unnamed[: max(0, len(unnamed) - keep)]
        self._sweep([number for number in old if number != view.base], view)

    def delete(self, epoch: str | int) -> None:
        """Remove an epoch by its number, a savepoint or a damaged entry by its name.

        ConfigError if there is none, or if it is what the job goes on from.
        """
        view = self._entries.view()
        number = view.find(epoch)
        if number == view.base:
            raise ConfigError(
                f"{str(epoch)!r} is the epoch that the job goes on from, expected another",
                _whole_before(number, view)
                if number in view.damaged
                else "`oka checkpoint delete --all` removes all, if the job is not to go on",
            )
        self._sweep([number], view)

    def delete_all(self) -> None:
        """Remove everything: the next driver begins without state.

        A driver that still runs is fenced at its next epoch: by a claim while there is a log, then
        by the missing entries before that epoch.
        """
        claim = {"generation": 0, "base": None, "job": ""}
        while not self._entries.create(number := self._entries.last() + 1, "claim", claim):
            continue
        for part in ("requests", "answers", "committed", "log", "data"):
            self._storage.delete(name for name in self._storage.list(part) if name != entry(number))
        self._storage.delete([entry(number)])

    def _sweep(self, gone: Collection[int] = (), view: View | None = None) -> None:
        """Remove these epochs, and data that no epoch needs or can need.

        Data of earlier drivers that is not stored yet is never stored. Own data after the last
        epoch stays, since tasks write changes of it next, stored or not; so does data of later,
        unseen drivers. The needs of a damaged entry are unknown: with one, only a driver that
        claimed after it removes data, and only its own.
        """
        view = view or self._entries.view()
        self._storage.delete(map(entry, gone))  # first: a half removed epoch is no epoch
        self._storage.delete(map(_marker, gone))
        self._storage.delete([*self._unneeded(view, gone), *view.passed])

    def _unneeded(self, view: View, gone: Collection[int]) -> list[str]:
        """Data that none needs or can need, once these epochs are gone."""
        damaged = view.damaged.keys() - gone
        if damaged and max(damaged) > self._claimed:
            return []
        kept = [each for number, each in view.epochs.items() if number not in gone]
        needed = {file.name for each in kept for task in each.tasks for file in task.files}
        stored = max((each.epoch for each in view.epochs.values()), default=0)
        since = (self._generation if damaged else 0, 0)
        until = (self._generation or view.generation, stored + 1)
        data = self._storage.list("data")
        return [name for name in data if name not in needed and since <= _made_by(name) < until]

    def _highest_epoch(self, view: View) -> int:
        """The highest epoch ever stored; data beside a damaged one shows its number."""
        epochs = set(self._number_of)
        if view.damaged:
            epochs |= {_made_by(name)[1] for name in self._storage.list("data")}
        return max(epochs, default=0)

    def _is_of_another(self, found: Mapping[str, Any]) -> bool:
        """Whether an entry after the claim is of another driver."""
        return found["kind"] == "claim" or bool(found["generation"] != self._generation)

    def _fenced(self) -> Fenced:
        owner = self._entries.view().owner
        return Fenced(
            f"another driver has taken over the job of {self._storage.url} from that of "
            f"generation {self._generation}" + ("" if owner is None else f": {owner}"),
            "this one ends and leaves nothing; the other goes on. Each job needs a place of its "
            "own for checkpoints",
        )


def _resumed(resume: str | int | None, view: View) -> int | None:
    """The number in the log of the epoch that `resume` names; None is the beginning."""
    if resume is None:
        if not view.epochs and not view.damaged:
            return None
        last = view.epochs[max(view.epochs)].epoch if view.epochs else "damaged"
        whose = "a job" if view.owner is None else str(view.owner)
        raise ConfigError(
            f"{view.url} has epochs of {whose}, the last of them {last}, and resume is None, "
            "expected a folder without",
            "resume='latest' (`--resume latest`) goes on with it; else take another folder",
        )
    base = view.base if resume == "latest" else view.find(resume)
    if base is None or base in view.epochs:
        return base
    raise CheckpointError(
        f"{view.damaged[base].message}; the job would go on from it"
        if base in view.damaged
        else f"{view.url} lacks {entry(base)}, which the job goes on from",
        _whole_before(base, view),
    )


def _whole_before(base: int, view: View) -> str:
    """A hint. The user decides: output after an older epoch may be final."""
    if not view.epochs:
        return "no epoch is whole: `oka checkpoint delete --all` lets the job begin anew"
    older = [each.epoch for number, each in view.epochs.items() if number < base]
    if not older:
        return "`oka checkpoint list` shows other epochs: go on from one of these by its number"
    return (
        f"`--resume {older[-1]}` goes on from the newest epoch before it; move output behind that "
        "one away first, or it is there twice"
    )


def _made_by(data: str) -> tuple[int, int]:
    """The generation that wrote a file of data, and for which epoch."""
    _, epoch, name = data.split("/")
    return int(name.partition("-")[0]), int(epoch)


def _marker(number: int) -> str:
    return f"committed/{number:08}"
