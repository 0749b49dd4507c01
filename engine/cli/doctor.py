"""`oka doctor`: whether jobs can run on this machine, what would slow them down, and what to do."""

from __future__ import annotations

import importlib
import json
import os
import platform
import resource
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, TypeAlias

import click

from engine.errors import EngineError
from engine.installation.distribution import DISTRIBUTION, install_hint
from engine.installation.folders import state_folder
from engine.report.provenance import machine
from engine.system import IS_LINUX, usable_cores
from engine.units import measure

State: TypeAlias = Literal["fine", "look", "fails"]


@dataclass(frozen=True)
class Finding:
    """What was found of one thing; a hint where it is not fine."""

    what: str
    state: State
    found: str
    hint: str = ""


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="A JSON object per line.")
@click.option("--job/--no-job", default=True, help="Run a small job, too: some two seconds.")
def command(as_json: bool, job: bool) -> None:
    """Check whether jobs run on this machine, and say what to do where they do not.

    Status 1 if something fails; what only slows jobs down, or is missing for some of them, is told.
    """
    failed = False
    for check in _CHECKS if job else _CHECKS[:-1]:
        for finding in check():
            failed |= finding.state == "fails"
            click.echo(json.dumps(asdict(finding)) if as_json else told(finding))
    if failed:
        sys.exit(1)


def told(finding: Finding) -> str:
    """A finding in a line, and its hint in another one."""
    hint = f"\n{'':{_MARGIN}}hint: {finding.hint}" if finding.hint else ""
    return f"{finding.state:<7}{finding.what:<{_MARGIN - 7}}{finding.found}{hint}"


def _versions() -> Iterator[Finding]:
    try:
        own = metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        hint = "pip install the clone or a wheel into this environment"
        yield Finding("Oka", "fails", f"{DISTRIBUTION} is not installed in {sys.prefix}", hint)
        return
    python = f"Python {platform.python_version()}"
    yield Finding("Oka", "fine", f"{own}, {python} in {sys.prefix}")
    if any(metadata.distributions(name=_STRANGER)):
        text = f"the distribution {_STRANGER} is somebody else's and writes into Oka's package"
        hint = f"pip uninstall {_STRANGER}, then pip install --force-reinstall {DISTRIBUTION}"
        yield Finding("packages", "fails", text, hint)
    for extra, distribution, what in _EXTRAS:
        try:
            found = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            text = f"not installed: {what} need it"
            yield Finding(distribution, "look", text, install_hint(extra))
        else:
            yield Finding(distribution, "fine", found)


def _cores() -> Iterator[Finding]:
    usable = usable_cores()
    quota = _quota()
    text = f"{usable} of {machine()['cores']}"
    if quota is not None and quota < usable:
        hint = "a parallelism above the quota makes tasks wait for each other"
        yield Finding("cores", "look", f"{text}, by the control group {quota:g}", hint)
    else:
        yield Finding("cores", "fine", text)


def _quota() -> float | None:
    """The cores that the control group of this process may use; None for all."""
    try:
        most, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return None if most == "max" else int(most) / int(period)
    except (OSError, ValueError):
        return None


def _memory() -> Iterator[Finding]:
    if not IS_LINUX:
        whole = measure(machine()["memory_bytes"], "byte")
        yield Finding("memory", "fine", f"{whole} in all; what is free is known on Linux alone")
        text = "channels go by Unix sockets, and models by files without a name, as off Linux"
        yield Finding("shared memory", "fine", text)
        return
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    free = next((int(line[1]) * 1024 for line in lines if line[0] == "MemAvailable:"), 0)
    text = f"{measure(free, 'byte')} free of {measure(machine()['memory_bytes'], 'byte')}"
    if free < _LEAST_MEMORY:
        hint = "a worker takes 60 MB and what its operators keep; end what else runs here"
        yield Finding("memory", "look", text, hint)
    else:
        yield Finding("memory", "fine", text)
    try:
        os.close(os.memfd_create("oka-doctor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
    except OSError as error:
        hint = "let the sandbox allow memfd_create, or take transport='ipc'"
        yield Finding("shared memory", "fails", f"cannot be made: {error.strerror}", hint)
    else:
        yield Finding("shared memory", "fine", "without a name: /dev/shm is not used")


def _descriptors() -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    text = f"{soft:,} per process, at most {hard:,}"
    if soft < _LEAST_DESCRIPTORS:
        more = "raise the hard limit: LimitNOFILE= of systemd, or /etc/security/limits.conf"
        if hard > soft:
            more = f"ulimit -n {min(hard, _MANY_DESCRIPTORS)}"
        hint = f"{more}; a task has some for each of its channels"
        yield Finding("descriptors", "look", text, hint)
    else:
        yield Finding("descriptors", "fine", text)


def _folders() -> Iterator[Finding]:
    temporary = Path(tempfile.gettempdir())
    if len(str(temporary)) > _LONGEST_FOLDER:
        text = f"{temporary} has {len(str(temporary))} characters, expected {_LONGEST_FOLDER}"
        hint = "names of sockets are short: TMPDIR=/tmp"
        yield Finding("temporary files", "fails", text, hint)
    else:
        yield _folder("temporary files", temporary, "TMPDIR says where they are", named=temporary)
    state = state_folder()
    there = next(each for each in (state, *state.parents) if each.exists())
    hint = "history='off' does without, and history=FOLDER has another place"
    yield _folder("histories", there, hint, named=state)


def _folder(what: str, folder: Path, hint: str, named: Path) -> Finding:
    """Whether there is room in the folder, in which the one that is named is or will be."""
    if not os.access(folder, os.W_OK | os.X_OK):
        return Finding(what, "fails", f"{named} cannot be written to", hint)
    free = shutil.disk_usage(folder).free
    text = f"{measure(free, 'byte')} free in {named}"
    if free < _LEAST_DISK:
        return Finding(what, "look", text, f"make room; {hint}")
    return Finding(what, "fine", text)


def _network() -> Iterator[Finding]:
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname()[:2], timeout=2).close()
    except OSError as error:
        hint = "workers, metrics and pages listen on 127.0.0.1: allow it"
        yield Finding("loopback", "fails", f"no connection: {error.strerror or error}", hint)
    else:
        yield Finding("loopback", "fine", "connects")
    name = socket.gethostname()
    try:
        address = socket.gethostbyname(name)
    except OSError:
        hint = f"put {name} into /etc/hosts"
        yield Finding("host name", "look", f"{name} has no address; Ray's workers need one", hint)
    else:
        yield Finding("host name", "fine", f"{name} is {address}")


def _clock() -> Iterator[Finding]:
    year = time.gmtime().tm_year
    if year < _FIRST_YEAR:
        hint = "set the clock: watermarks by the wall clock, TLS and S3 need the time"
        yield Finding("clock", "fails", f"it is the year {year}", hint)
    else:
        yield Finding("clock", "fine", time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()))


def _job() -> Iterator[Finding]:
    from engine import execute

    oka: Any = importlib.import_module("oka")  # above the engine: what users compose with
    words = oka.source(oka.sources.RandomWords(length=8, count=_RECORDS))
    pipeline = words.key_by().count().sink(oka.sinks.Counts())
    began = time.monotonic()
    try:
        found = execute(pipeline, parallelism=2, history="off", progress="none").output
    except EngineError as error:
        message, _, hint = str(error).partition("\n\nhint: ")
        yield Finding("a job", "fails", message, hint)
        return
    took = time.monotonic() - began
    if sum(found.values()) != _RECORDS:
        yield Finding("a job", "fails", f"{found} are not {_RECORDS} records", "please report it")
    else:
        yield Finding("a job", "fine", f"{_RECORDS:,} records in two tasks each, {took:.1f} s")


_CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _versions,
    _cores,
    _memory,
    _descriptors,
    _folders,
    _network,
    _clock,
    _job,
)
_EXTRAS = (
    ("ray", "ray", "jobs on several machines"),
    ("arrow", "pyarrow", "columns, Parquet and Delta"),
    ("kafka", "confluent-kafka", "topics"),
)
"""The extra, its distribution, and what needs it."""
_STRANGER = "oka"  # of the package index
_MARGIN = 24
_LEAST_MEMORY = 500_000_000
_LEAST_DISK = 1_000_000_000
_LEAST_DESCRIPTORS = 1024
_MANY_DESCRIPTORS = 65_536
_LONGEST_FOLDER = 64 if IS_LINUX else 60
_FIRST_YEAR = 2026
_RECORDS = 10_000
