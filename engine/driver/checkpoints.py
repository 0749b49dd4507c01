"""The checkpoints of one job, as its driver sees them: the log, and where tasks begin."""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from engine.checkpoint import (
    Answer,
    CheckpointLog,
    Manifest,
    Request,
    Requests,
    RestoredTask,
    open_storage,
    plan_restore,
)
from engine.config import JobConfig
from engine.deployment.description import Start, TaskDescription
from engine.deployment.reply import text_of
from engine.driver.epochs import EpochStored, SavepointRequested, Store, StoreFailed
from engine.driver.events import MasterFailed
from engine.errors import EngineError, Fenced, StorageError
from engine.graph.logical import LogicalOperator
from engine.record import registry as record_registry

Outcome = Callable[[EpochStored | StoreFailed | MasterFailed], None]


class Checkpoints:
    """The log of a job that this driver has claimed. A thread of its own writes to it.

    Raises ConfigError, CheckpointError and StorageError if the job cannot go on as requested.
    """

    def __init__(
        self,
        config: JobConfig,
        tasks: Sequence[TaskDescription],
        say: Callable[[str], None],
        want: Callable[[SavepointRequested], None],
        check_parallelism: Callable[[int], object],
    ) -> None:
        assert config.checkpoints is not None
        storage = open_storage(config.checkpoints)
        self._url = storage.url
        self._name = config.name
        self._drop = config.drop_state
        self._tasks = tasks
        self._is_trusted = any(each.pickle for task in tasks for each in task.operators)
        self._meanings = meanings(operator for task in tasks for operator in task.operators)
        self._log = CheckpointLog(storage)
        claim = self._log.claim(config.resume, job=config.name)
        self.first_epoch = claim.next_epoch
        self._generation = claim.generation
        self._manifest = claim.manifest
        self._committed = self._log.committed()
        """Epochs that are known to be, of which it may go on."""
        self._made: Manifest | None = None
        """The last that is to be stored."""
        self._planned: tuple[Manifest | None, list[RestoredTask]] = (None, [])
        self._say = say
        self._want = want
        self._check_parallelism = check_parallelism
        self._requests = Requests(storage)
        self._asked: dict[str, tuple[Request, Callable[[Answer], None]]] = {}
        """Whoever waits for a savepoint, by its name."""
        self.rescaled: Request | None = None
        """The request after whose savepoint the job goes on with another parallelism."""
        self._stored = 0
        self._ended: float | None = None
        """When the last was stored."""
        self._storing = self._committing = 0.0
        """The seconds that storing the last took, and committing the last that is committed."""
        self._looked: set[str] = set()
        """Nodes of which a task looks whether it reaches the storage, or has."""
        self._first: set[int] = set()
        """The tasks that are to look, until they are told."""
        self._is_closed = False
        self._work: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="oka-checkpoints", daemon=True)
        self._plan(claim.manifest)
        if claim.manifest is not None:
            age = time.time() - claim.manifest.ended
            say(f"goes on from checkpoint {claim.manifest.epoch}, which is {age:.0f} s old")
        self._thread.start()

    @property
    def classes(self) -> record_registry.Classes:
        """Classes in the state that the job goes on from."""
        return {} if self._manifest is None else self._manifest.classes

    def look_from(self, tasks: Sequence[TaskDescription]) -> None:
        """Have the first of these tasks on each new node check that it reaches the checkpoints."""
        first = {task.node: task.id for task in reversed(tasks)}
        self._first = {task for node, task in first.items() if node not in self._looked}
        self._looked.update(first)

    def start(self, task: int, last: int) -> Start:
        """Where a task begins: behind the last epoch that is stored; `last` has begun.

        One task of each node looks whether checkpoints can be written there, when the job starts
        and when it comes to a node of which none has looked.
        """
        seen = self._log.claimed if task in self._first else None
        self._first.discard(task)
        manifest = self._manifest
        if manifest is None:
            return Start(self._url, self._generation, 0, last, seen=seen)
        planned = self._plan(manifest)
        own = planned[task]
        first = self._tasks[task].operators[0]
        who = (
            planned if first.operator.properties.gives_again else [own]
        )  # whoever is at work reads it
        finished = all(each.finished for each in who)
        return Start(
            self._url,
            self._generation,
            manifest.epoch,
            last,
            own.entries,
            finished,
            max((each for each in self._committed if each <= manifest.epoch), default=0),
            manifest.open_shares(first.identity),
            {
                operator.identity: manifest.meanings[operator.identity]
                for operator in self._tasks[task].operators
                if operator.identity in manifest.meanings
            },
            self._is_trusted,
            self._modules(manifest),
            seen,
        )

    def _modules(self, manifest: Manifest) -> frozenset[str]:
        """The modules of classes in the state, as far as this process knows them.

        The manifest is not trusted: of its modules, only those that are imported here or reported
        by tasks count.
        """
        modules = record_registry.modules_of(manifest.classes)
        return frozenset(each for each in modules if each in sys.modules or each in _told)

    def store(self, epoch: Store, tell: Outcome) -> None:
        """Put an epoch into the log, and report the result later; returns at once."""
        if self._made is None or self._made.epoch != epoch.epoch:  # else it is tried again
            self._made = self._make(epoch)
        manifest = self._made
        self._put(lambda: tell(self._store(manifest)))

    def verify(self, tell: Callable[[MasterFailed], None]) -> None:
        """Report later whether another driver has taken over the job; returns at once.

        Without an answer of the storage there is no report: it is asked again before an epoch is
        stored.
        """

        def verify() -> None:
            try:
                self._log.verify()
            except Fenced as error:
                tell(MasterFailed(error))

        self._put(verify)

    def mark(self, epoch: int) -> None:
        """All sinks have committed the epoch: older ones can be removed."""
        if self._ended is not None:
            self._committing = time.monotonic() - self._ended

        def mark() -> None:
            self._log.mark_committed(epoch)
            self._committed = {epoch}  # of those before it no task asks any more
            self._log.retain()

        self._put(mark)

    def ask(self, request: Request, answer: Callable[[Answer], None]) -> None:
        """Have a savepoint made, and say what became of it; from any thread."""

        def ask() -> None:
            if self._is_closed:
                answer(Answer(error="the job has ended"))
            elif request.savepoint is None:
                answer(Answer(0 if self._manifest is None else self._manifest.epoch))
            elif request.savepoint in self._asked or request.savepoint in self._log.savepoints():
                answer(Answer(error=f"there is a savepoint {request.savepoint!r}"))
            elif error := self._refusal(request):
                answer(Answer(error=error))
            else:
                self._asked[request.savepoint] = request, answer
                stop = request.stop if request.parallelism is None else "now"
                self._want(SavepointRequested(request.savepoint, stop))

        self._work.put(ask)
        if self._is_closed:
            self._refuse()

    def _refusal(self, request: Request) -> str | None:
        """The reason why the job cannot have so many tasks; known while it still runs."""
        if request.parallelism is not None:
            try:
                self._check_parallelism(request.parallelism)
            except EngineError as error:
                return text_of(error)
        return None

    def metrics(self) -> dict[str, Any]:
        """Figures of its checkpoints, by the names of `Metrics`; from any thread."""
        made, ended = self._made, self._ended
        if made is None or ended is None:
            return {}
        return {
            "checkpoints": self._stored,
            "checkpoint_ms": 1e3 * (made.ended - made.started),
            "checkpoint_store_ms": 1e3 * self._storing,
            "checkpoint_commit_ms": 1e3 * self._committing,
            "checkpoint_bytes": made.written,
            "checkpoint_age_ms": 1e3 * (time.monotonic() - ended),
        }

    def close(self, *, is_away: bool = False) -> None:
        """Wait for what is under way, if that does not take long; not for a storage `is_away`."""
        self._work.put(None)
        self._thread.join(0.0 if is_away else _PATIENCE_SECONDS)
        self._is_closed = True
        self._refuse()
        is_over = self.rescaled is None
        why = "the job ended before" if is_over else "the job was rescaled before: ask again"
        for _, answer in self._asked.values():
            answer(Answer(error=why))

    def _put(self, work: Callable[[], object]) -> None:
        """Have the thread ask the storage, unless the job is over by then."""
        self._work.put(lambda: None if self._is_closed else work())

    def _refuse(self) -> None:
        """Answer what came too late."""
        with suppress(queue.Empty):
            while True:
                if (work := self._work.get_nowait()) is not None:
                    work()

    def _plan(self, manifest: Manifest | None) -> list[RestoredTask]:
        if manifest is not None and manifest is not self._planned[0]:
            told = [
                (tuple(each.identity for each in task.operators), task.index, task.parallelism)
                for task in self._tasks
            ]
            committed = manifest.epoch in self._committed
            restored = plan_restore(
                manifest, told, self._drop, committed=committed, meanings=self._meanings
            )
            self._planned = manifest, restored
        return self._planned[1]

    def _make(self, epoch: Store) -> Manifest:
        ended = time.time()
        manifest = Manifest(
            job=self._name,
            epoch=epoch.epoch,
            generation=self._generation,
            tasks=tuple(epoch.entries[task.id] for task in self._tasks),
            savepoint=epoch.savepoint,
            started=ended - epoch.seconds,
            ended=ended,
            meanings=self._meanings,
        )
        self._learn(record_registry.modules_of(manifest.classes))
        return manifest

    def _learn(self, modules: set[str]) -> None:
        """Take the modules of the tasks' classes; warn of those that another driver would lack."""
        unknown = modules.difference(_told, sys.modules)
        _told.update(modules)
        for module in sorted(unknown if not self._is_trusted else ()):
            self._say(
                f"checkpoints: records have objects of the module {module}, which nothing but a "
                "function imports: if they are in state, the job is refused when it is started "
                f"again\n\nhint: import {module} at the top of the pipeline's file"
            )

    def _store(self, manifest: Manifest) -> EpochStored | StoreFailed | MasterFailed:
        began = time.monotonic()
        try:
            self._log.store(manifest)
        except StorageError as error:
            return StoreFailed(manifest.epoch, error)
        except BaseException as error:  # noqa: BLE001 - such as Fenced: the job cannot go on
            return MasterFailed(error)
        self._manifest = manifest
        self._stored += 1
        self._ended = time.monotonic()
        self._storing = self._ended - began
        if manifest.savepoint is not None and manifest.savepoint in self._asked:
            request, answer = self._asked.pop(manifest.savepoint)
            if request.parallelism is not None:
                self.rescaled = request
            answer(Answer(manifest.epoch))
        return EpochStored(manifest.epoch)

    def _look_for_requests(self) -> None:
        for request in self._requests.take():
            self.ask(request, partial(self._requests.answer, request))

    def _run(self) -> None:
        looked, told = time.monotonic(), set[str]()
        while not self._is_closed:
            try:
                work = self._work.get(timeout=_PERIOD_SECONDS)
            except queue.Empty:
                work = _nothing
            if work is None:
                return
            try:
                work()
                if time.monotonic() - looked >= _PERIOD_SECONDS and not self._is_closed:
                    looked = time.monotonic()
                    self._look_for_requests()
                    told.clear()
            except Exception as error:  # noqa: BLE001 - it is told; what is left goes later
                text = text_of(error).partition("\n")[0]
                if text not in told:
                    self._say(f"checkpoints: {text}")
                told.add(text)


def meanings(operators: Iterable[LogicalOperator]) -> dict[str, dict[str, Any]]:
    """The meaning of each operator's state, by its identity, in the form of a manifest."""
    told = {each.identity: each.operator.properties.meaning for each in operators}
    plain: dict[str, dict[str, Any]] = json.loads(json.dumps(told, default=repr))
    return plain


def _nothing() -> None:
    """Nothing was to be done for a while."""


_told: set[str] = set()
"""Modules that tasks of this process's jobs have had classes of; a job that is rescaled claims its
log anew."""
_PERIOD_SECONDS = 1.0
"""Between two looks at what is asked of the job."""
_PATIENCE_SECONDS = 10.0
