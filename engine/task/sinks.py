"""The sinks of one task, and what they have prepared, epoch by epoch, until it is committed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from engine.graph.failing import FailureContext
from engine.graph.sink import FIRST_EPOCH, SinkWriter

Prepared: TypeAlias = Mapping[str, list[tuple[int, Any]]]
"""Output that may not be final, by the identity of the sink: epochs, and the results of
`prepare`."""


class Sinks:
    """The writers of a task. The task's thread prepares; `commit` and `abort` come from any.

    A prepared epoch is committed, or kept: with checkpoints it may be stored.
    """

    def __init__(self, failing: FailureContext) -> None:
        self._failing = failing
        self._writers: dict[str, SinkWriter] = {}
        """The writers that have not committed the last epoch, by operator name."""
        self._identities: dict[str, str] = {}
        self._prepared: dict[str, list[tuple[int, Any]]] = {}
        self._results: dict[str, Any] = {}
        self._lock = threading.RLock()
        """The lock that is held while output becomes final or is dropped."""

    def add(self, name: str, identity: str, writer: SinkWriter) -> None:
        """Add the writer of an operator."""
        self._writers[name] = writer
        self._identities[name] = identity
        self._prepared[name] = []

    def restore(self, epoch: int, of_earlier: Iterable[Prepared]) -> None:
        """Restore the writers behind this epoch, with earlier tasks' prepared output."""
        kept = list(of_earlier)
        for name, writer in self._writers.items():
            self._failing.operator = name
            identity = self._identities[name]
            prepared = sorted(
                ((number, made) for each in kept for number, made in each.get(identity, ())),
                key=lambda each: each[0],
            )
            writer.restore(epoch, prepared)
        self._failing.operator = None

    def prepare(self, epoch: int = FIRST_EPOCH) -> Prepared:
        """Have the writers prepare their output; returns all prepared output that is not committed.

        If a writer fails, it may be called again, for this epoch or a later one.
        """
        for name, writer in self._writers.items():
            if self._prepared[name] and self._prepared[name][-1][0] == epoch:
                continue
            self._failing.operator = name
            made = writer.prepare(epoch)
            with self._lock:
                self._prepared[name].append((epoch, made))
        self._failing.operator = None
        with self._lock:
            return {self._identities[name]: list(made) for name, made in self._prepared.items()}

    def commit(
        self, epoch: int | None = None, failing: FailureContext | None = None
    ) -> dict[str, Any]:
        """Have the writers commit all epochs up to this one; None is all, for the last time.

        Returns the result of each, by operator name.
        """
        with self._lock:
            for name in list(self._writers):
                (failing or self._failing).operator = name
                self._commit(name, epoch)
            return dict(self._results)

    def _commit(self, name: str, epoch: int | None) -> None:
        prepared = self._prepared[name]
        while prepared and (epoch is None or prepared[0][0] <= epoch):
            self._results[name] = self._writers[name].commit(*prepared[0])
            del prepared[0]
        if epoch is None:
            self._writers.pop(name).close()

    def abort(self) -> dict[str, Callable[[], None]]:
        """A function for each writer that drops its uncommitted output; call each once."""
        with self._lock:
            writers, self._writers = self._writers, {}
        return {name: self._locked(writer.abort) for name, writer in writers.items()}

    def _locked(self, abort: Callable[[], None]) -> Callable[[], None]:
        def call() -> None:
            with self._lock:
                abort()

        return call
