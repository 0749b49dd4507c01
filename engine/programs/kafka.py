"""A broker of Kafka on a folder, for development and tests, as a process beside this one.

    with Kafka(folder) as kafka:
        Producer({"bootstrap.servers": kafka.servers}).produce("words", b"moon")

It needs Java 17. Its jars are fetched by Maven, once.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple

from engine.errors import ConfigError, StartError
from engine.installation.folders import cache_folder
from engine.programs.beside import Beside, command_of
from engine.programs.jars import jars, java
from engine.programs.ports import free_ports

VERSION = "4.1.0"
LOG = "server.log"
"""The broker's log in its folder, of the last start."""


class Kafka:
    """One broker, which is its own controller (KRaft), on the loopback address.

    It keeps its topics in the folder, and goes on with those that it finds there. It runs until
    `close`, the end of a `with` block or the end of this process, however that ends; or, behind
    `leave`, until `stop`. If it does not start, a folder that was new or
    empty is removed.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        port: int = 0,
        *,
        settings: Mapping[str, str] | None = None,
        tell: Callable[[str], None] = lambda _line: None,
    ) -> None:
        """Start it and wait until it answers; port 0 picks one.

        `settings` are further ones of the broker's; `tell` gets lines of progress. Raises
        ConfigError where Java or Maven is missing, the port is taken or the folder is not a
        broker's, StartError where it does not start.
        """
        if not 0 <= port < 1 << 16:
            raise ConfigError(f"the port is {port}, expected 0 to 65535")
        self.folder, self._tell = Path(folder).absolute(), tell
        self._command = [*command(tell), f"-Djava.io.tmpdir={self.folder}"]
        self._command += [f"-Dlog4j2.configurationFile={self.folder / _LOGGING}"]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{self.folder} cannot be made: {error.strerror}") from None
        with _alone(self.folder):
            is_new = not any(self.folder.iterdir())
            try:
                self._check(port)
                self._start(port, settings or {}, self.folder if is_new else None)
            except BaseException:
                if is_new:
                    shutil.rmtree(self.folder, ignore_errors=True)
                raise

    @property
    def pid(self) -> int:
        """The broker's process."""
        return self._process.pid

    def leave(self) -> None:
        """Let it run on when this process ends; `stop` ends it."""
        self._process.release()

    def close(self) -> None:
        """End it. Its topics stay in the folder. Does nothing the second time."""
        self._process.terminate(_END_SECONDS)

    def __enter__(self) -> Kafka:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self, port: int) -> None:
        if broker := running(self.folder):
            raise ConfigError(
                f"a broker runs in {self.folder} already, at {broker.servers}",
                "`oka dev down kafka` ends it",
            )
        if any(self.folder.iterdir()) and not (self.folder / _SETTINGS).exists():
            raise ConfigError(
                f"{self.folder} has files that are not a broker's", "give a folder of its own"
            )
        if port:
            with socket.socket() as listener:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    listener.bind(("127.0.0.1", port))
                except OSError as error:
                    raise ConfigError(
                        f"port {port} cannot be had: {error.strerror}",
                        "take another --port; without it a free one is taken",
                    ) from None

    def _start(self, port: int, settings: Mapping[str, str], leftover: Path | None) -> None:
        (self.folder / _LOGGING).write_text(_LOGGING_TEXT.format(log=self.folder / LOG))
        for _ in range(1 if port else _TRIES):  # a port that was free may be taken meanwhile
            own, controller = free_ports(2)
            self.servers = f"127.0.0.1:{port or own}"
            lines = _SETTINGS_TEXT.format(
                servers=self.servers, controller=controller, topics=self.folder / _TOPICS
            )
            lines += "".join(f"{name}={value}\n" for name, value in settings.items())
            (self.folder / _SETTINGS).write_text(lines)
            (self.folder / LOG).write_bytes(b"")
            with (self.folder / LOG).open("ab") as errors:  # of the JVM itself
                if self._make_topics(errors, leftover) and self._runs(errors, leftover):
                    return
        why = self._why()
        raise StartError(f"Kafka did not start: {why}", _start_hint(why))

    def _make_topics(self, errors: IO[bytes], leftover: Path | None) -> bool:
        """Whether there is a folder of topics; Kafka's own program makes it."""
        made = self.folder / _TOPICS / "meta.properties"
        if not made.exists():
            self._tell("starting Kafka: its folder")
            words = ["format", "-t", _CLUSTER, "-c", str(self.folder / _SETTINGS)]
            tool = Beside([*self._command, "kafka.tools.StorageTool", *words], errors, leftover)
            try:
                for line in tool.lines():
                    errors.write(line.encode())
                errors.flush()
            except BaseException:
                tool.kill()
                raise
            tool.release()
        return made.exists()

    def _runs(self, errors: IO[bytes], leftover: Path | None) -> bool:
        """Whether the broker answers; if not, it has ended."""
        words = ["kafka.Kafka", str(self.folder / _SETTINGS)]
        self._process = Beside([*self._command, *words], errors, leftover)
        begun = time.monotonic()
        try:
            while _STARTED not in (self.folder / LOG).read_text(errors="replace"):
                if self._process.wait_ended(0.05):
                    self._process.release()
                    return False
                seconds = time.monotonic() - begun
                self._tell(f"starting Kafka: {seconds:.0f} s")
                if seconds > _START_SECONDS:
                    raise StartError(f"Kafka did not start within {seconds:.0f} s: {self._why()}")
            state = {"pid": self._process.pid, "servers": self.servers}
            (self.folder / _STATE).write_text(json.dumps(state))
            self._process.keep()
        except BaseException:
            self._process.kill()
            raise
        return True

    def _why(self) -> str:
        """What of the log says why it has not started."""
        lines = (self.folder / LOG).read_text(errors="replace").splitlines()
        said = [line for line in lines if re.search(r"ERROR|FATAL|Exception|Error:", line)]
        return "\n".join((said or lines)[:_LINES]) or "it said nothing"


def command(tell: Callable[[str], None]) -> list[str]:
    """The command that runs a program of Kafka's, up to the name of its class."""
    program = java()
    return [program, *_JVM, "-cp", str(jars(_JARS, _ARTIFACTS, tell) / "*")]


def jars_folder() -> Path:
    """The folder of its jars, which Maven fills once, for all brokers of this user."""
    return cache_folder() / _JARS


class Running(NamedTuple):
    """A broker that runs: its process, and what clients connect to."""

    pid: int
    servers: str


def running(folder: Path) -> Running | None:
    """The broker that runs on the folder, if one does."""
    try:
        found = Running(**json.loads((folder / _STATE).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return found if str(folder.absolute() / _SETTINGS) in command_of(found.pid) else None


def stop(folder: Path) -> Running | None:
    """End the broker that runs on the folder, for certain; the one that ran. Its topics stay."""
    if not folder.exists():
        return None
    with _alone(folder):  # not while one starts there
        broker = running(folder)
        if broker is not None:
            for number in (signal.SIGTERM, signal.SIGKILL):
                with suppress(ProcessLookupError):
                    os.kill(broker.pid, number)
                deadline = time.monotonic() + _END_SECONDS
                while running(folder) and time.monotonic() < deadline:
                    time.sleep(0.02)
        (folder / _STATE).unlink(missing_ok=True)
    return broker


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Nobody else starts or stops a broker on the folder meanwhile."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _start_hint(why: str) -> str | None:
    if "UnsupportedClassVersionError" in why:
        return "it needs Java 17 or newer: JAVA_HOME says which one it gets"
    if "lock" in why.lower():
        return "another broker uses this folder"
    return None


_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
"""Little memory, a quick start, and no file in /tmp."""
_JARS = f"kafka-{VERSION}"
_ARTIFACTS = (
    f"org.apache.kafka:kafka_2.13:{VERSION}",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3",  # without it there is no log
)
_CLUSTER = "b2thLWRldi1rYWZrYS0wMQ"
_STARTED = "Kafka Server started"
_SETTINGS, _LOGGING, _STATE = "server.properties", "log4j2.properties", "running.json"
_TOPICS = "topics"
_TRIES = 3
_LINES = 8
_START_SECONDS, _END_SECONDS = 180.0, 20.0
_SETTINGS_TEXT = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{servers},CONTROLLER://127.0.0.1:{controller}
log.dirs={topics}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""
_LOGGING_TEXT = """\
status=error
rootLogger.level=info
rootLogger.appenderRef.file.ref=file
appender.file.type=RollingFile
appender.file.name=file
appender.file.fileName={log}
appender.file.filePattern={log}.1
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=%d %p %m (%c)%n
appender.file.policies.type=Policies
appender.file.policies.size.type=SizeBasedTriggeringPolicy
appender.file.policies.size.size=10MB
appender.file.strategy.type=DefaultRolloverStrategy
appender.file.strategy.max=1
"""
