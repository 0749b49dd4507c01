"""Running a pipeline: plan, place, deploy, wait."""

from __future__ import annotations

import dataclasses
import logging
import os
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

from engine.checkpoint import Request
from engine.checkpoint.requests import Stop
from engine.config import JobConfig
from engine.deployment.reply import text_of
from engine.deployment.stacks import Stacks
from engine.driver.launcher import Launcher
from engine.driver.master import JobMaster, JobReport
from engine.driver.outcomes import abort, committed
from engine.driver.ray import forked  # noqa: F401 - looks whether processes fork from now on
from engine.environment import configured
from engine.errors import ConfigError, DriverLost, JobCancelled, without_frames
from engine.graph.checks import check_integer
from engine.graph.sink import SinkOperator
from engine.history.cell import LiveCell, page_of
from engine.history.history import History
from engine.installation.distribution import install_hint
from engine.monitoring.watch import Monitoring, monitoring
from engine.notebook import cells
from engine.placement.nodes import Node
from engine.placement.place import Placement
from engine.plan import Pipelines, Plan
from engine.report.late import LateRecords
from engine.report.progress import ProgressLine, telling
from engine.report.result import JobResult, SinkFiles
from engine.report.samples import Sampler, Watcher
from engine.report.statistics import JobStatistics
from engine.ui.page import Page, page
from engine.units import counted, duration

Config = JobConfig | Mapping[str, Any]
logger = logging.getLogger("oka")


@without_frames
def execute(pipelines: Pipelines, config: Config | None = None, **settings: Any) -> JobResult:
    """Run the pipeline (or several that share operators) to its end.

    Settings are those of JobConfig: `execute(pipeline, parallelism=2, batch_size=100)`, or a
    whole `config`, or a dict of settings; variables such as OKA_PARALLELISM win over them.
    Raises GraphError, ConfigError and PlacementError before any worker starts; OperatorError,
    WorkerLost, ChannelLost or StartError when the job fails.
    Ctrl-C stops the job within two seconds, drops what sinks hold, and then raises
    KeyboardInterrupt, as programs expect; `oka run` lets go through what was emitted, and so does
    `submit(…).stop()`. A signal handler of yours that raises stops it, too.
    """
    return finished(submit(pipelines, config, **settings))


@without_frames
def finished(handle: JobHandle) -> JobResult:
    """Wait for the end; whatever is raised meanwhile stops the job, as for `execute`."""
    try:
        return handle.wait_finished()
    except BaseException:
        handle.cancel()
        handle.wait_stopped()
        raise


@without_frames
def submit(pipelines: Pipelines, config: Config | None = None, **settings: Any) -> JobHandle:
    """Start the pipeline and return at once. Arguments and planning errors as for `execute`."""
    if config is not None and settings:
        raise ConfigError(
            f"got a config and the settings {', '.join(settings)}, expected one or the other",
            "dataclasses.replace(config, …) changes a setting of a config",
        )
    if config is not None and not isinstance(config, JobConfig | Mapping):
        raise ConfigError(
            f"config is {type(config).__name__} {config!r:.80}, expected a JobConfig or a dict",
            "JobConfig.read(path) reads a file",
        )
    if isinstance(config, JobConfig):
        config = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    return submit_configured(pipelines, configured(settings if config is None else config))


@without_frames
def submit_configured(pipelines: Pipelines, config: JobConfig) -> JobHandle:
    """Start the pipeline with these settings, whatever the environment says."""
    plan = Plan.of(pipelines, config)
    return JobHandle(plan, open_launcher(plan))


class JobHandle:
    """A running job. It runs in a thread of the driver and ends with the driver.

    So no other process can have it. On Ray, an actor that submits the job can offer its methods.
    """

    def __init__(self, plan: Plan, launcher: Launcher) -> None:
        self._process_id = os.getpid()
        self._plan = plan
        self._config = plan.config
        self._is_cancelled = self._is_stopped = False
        self._sinks = {
            operator.name: operator.operator
            for operator in plan.logical.operators
            if isinstance(operator.operator, SinkOperator)
        }
        self._started = time.monotonic()
        self._ended: float | None = None
        self._finished: Future[JobResult] = Future()
        self._outcome: JobResult | BaseException | None = None
        self._progress = ProgressLine(plan.config.progress, self.cancel)
        self._history = History(plan.config, self._progress.warn)
        self._monitoring: Monitoring | None = None
        self._page: Page | None = None
        try:
            self._page = page(plan.config, self, self._progress.say)
            self._monitoring = monitoring(plan.config, self._progress.say)
        except BaseException:
            if self._page is not None:
                self._page.close()
            launcher.shutdown()
            raise
        watchers: list[Watcher] = [LateRecords(self._warn), self._progress, self._history]
        watchers += [] if self._monitoring is None else [self._monitoring]
        self._sampler = Sampler(lambda: self._master.statistics(), watchers)
        try:
            self._last_master = self._made(plan, launcher)
        except BaseException:
            self._sampler.end()
            if self._page is not None:
                self._page.close()
            raise
        self._sampler.start()
        self._cell = self._live_cell()
        self._thread = threading.Thread(target=self._run, name="oka-master", daemon=True)
        self._thread.start()

    def statistics(self) -> JobStatistics:
        """What the job has done up to now; a snapshot."""
        return JobStatistics.of(self._master.statistics())

    def stop(self) -> None:
        """End the sources; what they have emitted goes on to the sinks, and the job succeeds.

        A source ends behind the batch that it is at: one that waits for its next is not disturbed
        (`yield []` gives it an end to look at), and `cancel` ends it all the same. A job that still
        waits for nodes is cancelled, as it has emitted nothing. Returns at once; `wait_finished`
        gives the result.
        """
        self._is_stopped = True
        self._master.stop()

    @without_frames
    def savepoint(self, name: str, *, stop: Stop = "no", timeout: float | None = None) -> int:
        """Keep the job's state under this name, for `resume`; returns the number of the epoch.

        `stop`: whether the job ends behind it: "now", as by `cancel`, or "drain", as by `stop`.
        Raises ConfigError for an impossible name, CheckpointError where no savepoint was made,
        TimeoutError after so many seconds; the savepoint may then still be made.
        """
        return self._master.savepoint(Request(name, stop)).result(timeout).made

    @without_frames
    def rescale(self, parallelism: int, *, timeout: float | None = None) -> None:
        """Go on with so many tasks of each operator that has no parallelism of its own.

        The job stops with a savepoint and starts from that; returns when it has stopped. Raises as
        `savepoint`, also where the job cannot have so many: it then goes on as it is.
        """
        check_integer("parallelism", parallelism, 1)
        request = Request(f"rescaled-{uuid4().hex[:12]}", parallelism=parallelism)
        _ = self._master.savepoint(request).result(timeout).made

    @without_frames
    def flame(self, task: str, seconds: float = 5.0) -> Stacks:
        """Look for so long where a task spends its time, such as `map[0]`; the task goes on.

        The history keeps the last of what is found, which the job's page draws as a flame graph.
        Raises ConfigError for a task that there is not and for seconds not above 0 and at most 60,
        EngineError where the task does not run or does not answer.
        """
        if not (type(seconds) in (int, float) and 0 < seconds <= _LONGEST_FLAME_SECONDS):
            raise ConfigError(
                f"seconds is {seconds!r}, expected a number above 0 and at most "
                f"{_LONGEST_FLAME_SECONDS}"
            )
        found = self._master.stacks(task, seconds)
        self._history.keep("flame", task=task, **dataclasses.asdict(found))
        return found

    @property
    def has_checkpoints(self) -> bool:
        """Whether the job writes checkpoints."""
        return self._config.checkpoints is not None

    @property
    def history(self) -> Path | None:
        """The file that tells what the job does, as `oka jobs` does; None where there is none.

        It is made when the job starts, by a thread of its own.
        """
        return self._history.path

    @property
    def is_waiting(self) -> bool:
        """Whether no task works, since there is no room on the cluster for some of them."""
        return self._master.is_waiting

    @property
    def metrics_url(self) -> str | None:
        """Where Prometheus may scrape the job; None without a `metrics_port`."""
        return None if self._monitoring is None else self._monitoring.url

    @property
    def ui_url(self) -> str | None:
        """The link to the job's page, with the token that opens it; None without a `ui_port`."""
        return None if self._page is None else self._page.link

    def say(self, what: str) -> None:
        """Write a line to stderr, beside the job's progress."""
        self._progress.say(what)

    def cancel(self) -> None:
        """Stop the job: `wait_finished` then raises JobCancelled, within two seconds.

        The output of its sinks is dropped; `stop` keeps it.
        """
        self._is_cancelled = True
        self._master.cancel()

    @without_frames
    def wait_finished(self, timeout: float | None = None) -> JobResult:
        """Wait for the end; the result, or the error that ended the job.

        Raises TimeoutError after `timeout` seconds; the job then goes on.
        """
        self._check_process()
        return self._finished.result(timeout)

    def wait_stopped(self) -> None:
        """Wait until nothing of the job is left, however it ended."""
        self._check_process()
        self._thread.join()

    def __reduce__(self) -> NoReturn:
        """No pickle: the job runs here."""
        raise TypeError(
            f"{self!r} cannot be sent to another process: the job runs in a thread of this one"
            f"\n\nhint: {_HINT_PROCESS}"
        )

    @property
    def _master(self) -> JobMaster:
        """What runs the job now."""
        self._check_process()
        return self._last_master

    def _check_process(self) -> None:
        """Raise DriverLost in a forked process, which has none of the threads of the job."""
        if os.getpid() != self._process_id:
            raise DriverLost(
                f"{self!r} runs in the process {self._process_id}, and this one, {os.getpid()}, "
                "was forked from that",
                _HINT_PROCESS,
            )

    def __repr__(self) -> str:
        state = self._state()
        return f"<JobHandle of job {self._config.name!r}: {state}, {self._seconds:.1f} s>"

    def _repr_html_(self) -> str:
        return page_of(self._history.path) or self._figures()

    def _figures(self) -> str:
        """What there is to show of a job without a history, as HTML."""
        from engine.report.tables import result_html  # which loads rich

        return result_html(self._line(), self._seconds, self.statistics(), {})

    @property
    def _seconds(self) -> float:
        return (self._ended or time.monotonic()) - self._started

    def _state(self) -> str:
        error = self._outcome
        if error is None:
            return "running"
        if isinstance(error, JobResult):
            return "finished"
        return "cancelled" if isinstance(error, JobCancelled) else f"failed, {type(error).__name__}"

    def _live_cell(self) -> LiveCell | None:
        """What shows the job in a notebook, if it is not to be shown in another way."""
        if self._config.progress != "auto" or not cells.are_here():
            return None
        return LiveCell(self._line, lambda: self._history.path, self._figures)

    def _line(self) -> str:
        """The state of the job in a line, with the error of one that has failed."""
        told = f"job {self._config.name!r}: {self._state()}, {duration(self._seconds * 1e6)}"
        if isinstance(self._outcome, JobResult):
            return f"{told}, {counted(self._outcome.statistics.records, 'record')}"
        if self._outcome is None or isinstance(self._outcome, JobCancelled):
            return told
        why, *_ = text_of(self._outcome).splitlines() or [""]
        return f"{told}: {why}"

    def _made(self, plan: Plan, launcher: Launcher) -> JobMaster:
        try:
            plan.check_place(launcher)
            noted: set[str] = set()

            def place(nodes: Sequence[Node]) -> Placement:
                placement = plan.place_on(nodes)
                for note in placement.notes:
                    if note not in noted:
                        logger.log(logging.WARNING if note == plan.in_vain else logging.INFO, note)
                noted.update(placement.notes)
                return placement

            def check_parallelism(parallelism: int) -> None:
                plan.rescaled(parallelism, "latest").place(launcher)

            launcher.hear = self._history.hear
            master = JobMaster(
                plan.execution,
                place,
                plan.config,
                launcher,
                self._progress.tell,
                self._warn,
                check_parallelism,
                self._history.observe,
            )
            self._history.planned(plan.logical, plan.execution, lambda: plan.ways)
            return master
        except BaseException:
            launcher.shutdown()
            raise

    def _warn(self, what: str) -> None:
        self._history.note("warning", text=what)
        self._progress.warn(what)

    def _report(self) -> JobReport:
        """How the job ended, with as many tasks as were asked for last."""
        while True:
            try:
                return self._master.run()
            except JobCancelled:
                request = self._master.rescaled
                if request is None or self._is_cancelled:
                    raise
                name, parallelism = request.savepoint, request.parallelism
                if name is None or parallelism is None:
                    raise
            self._history.note("rescaled", parallelism=parallelism, savepoint=name)
            self._plan = self._plan.rescaled(parallelism, name)
            self._config = self._plan.config
            self._last_master = self._made(self._plan, open_launcher(self._plan))
            if self._is_cancelled:
                self._master.cancel()
            if self._is_stopped:
                self._master.stop()

    def _run(self) -> None:
        try:
            report = self._report()
            result = self._result(report)
        except BaseException as error:  # noqa: BLE001 - it is raised by wait_finished
            self._sampler.end()
            if self._config.checkpoints is None:  # else it may go on from what they prepared
                for name, sink in self._sinks.items():
                    abort(name, sink)
            self._end(error)
            self._finished.set_exception(error)
        else:
            self._sampler.end(report.statistics)
            self._end(result)
            self._finished.set_result(result)

    def _end(self, outcome: JobResult | BaseException) -> None:
        self._history.end(outcome)
        if self._page is not None:
            self._page.close()
        self._outcome, self._ended = outcome, time.monotonic()
        if self._cell is not None:
            self._cell.end(self._line())

    def _result(self, report: JobReport) -> JobResult:
        results = {
            name: committed(name, sink, report.outputs.get(name, []))
            for name, sink in self._sinks.items()
        }
        return JobResult(
            config=self._config,
            seconds=time.monotonic() - self._started,
            statistics=JobStatistics.of(report.statistics),
            outputs={
                name: result
                for name, result in results.items()
                if self._sinks[name].properties.driver
            },
            files=self._files(report),
        )

    def _files(self, report: JobReport) -> dict[str, SinkFiles]:
        """Where files are; it is logged, too."""
        found: dict[str, SinkFiles] = {}
        for name, sink in self._sinks.items():
            if (url := sink.files) is not None:
                is_everywhere = "://" in url or self._config.runtime == "local"
                found[name] = SinkFiles(url, () if is_everywhere else report.hosts[name])
                logger.info(f"the files of sink {name!r} are in {found[name]}")
        return found


def open_launcher(plan: Plan) -> Launcher:
    """The launcher of the plan's runtime, where it can be placed."""
    if plan.config.runtime == "ray":
        try:
            from engine.driver.ray.launcher import RayLauncher
        except ImportError as error:
            raise ConfigError(
                "runtime is 'ray' and Ray is not installed", install_hint("ray")
            ) from error
        with telling("connecting to Ray", plan.config.progress):
            return RayLauncher(plan.config, plan.resources)
    from engine.driver.local.launcher import LocalLauncher

    return LocalLauncher()


_LONGEST_FLAME_SECONDS = 60
_HINT_PROCESS = (
    "send what its methods return; on Ray, let an actor submit the job, and offer the methods that "
    "others call"
)
