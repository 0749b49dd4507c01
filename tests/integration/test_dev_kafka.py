"""`oka dev up kafka` and its neighbours as real processes."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from engine.programs.kafka import Kafka, jars_folder, running
from tests.kafka import Broker
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
OKA = [sys.executable, "-c", "from engine.cli.main import main; main()", "dev"]

pytestmark = pytest.mark.xdist_group("kafka")


def begun(folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*OKA, *arguments, "--folder", str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def oka(folder: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    with begun(folder, *arguments, **environment) as process:
        output, errors = process.communicate(timeout=300)
        return process.returncode, output + errors


def programs_on(folder: Path) -> list[str]:
    """Command lines with the folder in them, but for those of this test's commands."""
    found = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    lines = [" ".join(words) for words in found if "dev" not in words]
    return [line for line in lines if str(folder) in line]


@pytest.fixture
def folder(tmp_path: Path, kafka_programs: None, nothing_left: None) -> Path:
    """Where a broker can be."""
    return tmp_path / "broker"


def test_a_broker_from_up_to_down(folder: Path) -> None:
    jars = f"its jars are in {jars_folder()}\n"
    assert oka(folder, "status", "kafka") == (1, f"Kafka does not run on {folder}\n{jars}")
    code, said = oka(folder, "up", "kafka")
    assert code == 0, said
    servers = re.search(r"runs at (127\.0\.0\.1:\d+), on (.*)", said)
    assert servers is not None
    assert servers[2] == str(folder)
    try:
        assert f"runs already at {servers[1]}" in oka(folder, "up", "kafka")[1]
        code, said = oka(folder, "status", "kafka")
        assert (code, servers[1] in said, said.endswith(jars)) == (0, True, True)
        code, said = oka(folder, "logs", "kafka", "--lines", "20")
        assert "Kafka Server started" in said
        assert said.endswith(f"{folder}/server.log\n")
    finally:
        code, said = oka(folder, "down", "kafka")
    assert (code, said) == (0, f"Kafka has ended; its topics are in {folder}\n")
    assert programs_on(folder) == []
    names = {path.name for path in folder.iterdir()}
    assert names == {"server.properties", "log4j2.properties", "server.log", "topics"}
    assert oka(folder, "down", "kafka") == (0, "Kafka does not run\n")


@pytest.mark.table(2)
@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("StorageTool", signal.SIGKILL),
        ("kafka.Kafka", signal.SIGINT),
        ("kafka.Kafka", signal.SIGTERM),
        ("kafka.Kafka", signal.SIGKILL),
    ],
)
def test_what_ends_during_up_leaves_nothing(
    folder: Path, moment: str, number: signal.Signals
) -> None:
    with begun(folder, "up", "kafka") as process:
        wait_until(lambda: any(moment in line for line in programs_on(folder)))
        process.send_signal(number)
        process.communicate(timeout=300)
    wait_until(lambda: not programs_on(folder))
    wait_until(lambda: not folder.exists())


def test_a_folder_that_had_a_broker_stays_where_a_start_is_ended(folder: Path) -> None:
    with Broker(folder) as broker:
        topic = broker.topic()
        broker.produce(topic, [b"kept"])
    with begun(folder, "up", "kafka") as process:
        wait_until(lambda: programs_on(folder))
        process.kill()
    wait_until(lambda: not programs_on(folder))
    with Broker(folder) as broker:
        assert [message.value() for message in broker.read(topic)] == [b"kept"]


def test_a_broker_ends_with_the_process_that_has_it(folder: Path) -> None:
    program = f"from engine.programs.kafka import Kafka; Kafka({str(folder)!r}); print(1); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert running(folder) is not None
        process.kill()
    wait_until(lambda: not programs_on(folder))
    assert running(folder) is None
    assert folder.exists()


def test_a_pid_that_is_somebody_elses_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "running.json").write_text(f'{{"pid": {os.getpid()}, "servers": "127.0.0.1:1"}}')
    assert running(tmp_path) is None
    assert oka(tmp_path, "down", "kafka") == (0, "Kafka does not run\n")


def test_a_port_that_is_taken(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, said = oka(folder, "up", "kafka", "--port", str(port))
    assert code == 2
    assert f"port {port} cannot be had: Address already in use" in said
    assert "hint: take another --port" in said
    assert not folder.exists()


def test_a_setting_that_the_broker_refuses(folder: Path) -> None:
    with pytest.raises(Exception, match=r"(?s)Kafka did not start: .*num.partitions"):
        Kafka(folder, settings={"num.partitions": "many"})
    assert not folder.exists()
    assert programs_on(folder) == []


def test_a_folder_of_something_else(folder: Path) -> None:
    folder.mkdir()
    (folder / "mine").touch()
    code, said = oka(folder, "up", "kafka")
    assert (code, "has files that are not a broker's" in said) == (2, True)
    assert [path.name for path in folder.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("there", "message", "hint"),
    [
        (["sh"], "there is no `java`, in JAVA_HOME or on the PATH", "install Java 17 or newer"),
        (["sh", "java"], "but there is no `mvn` on the PATH", "install Maven"),
    ],
)
def test_programs_that_are_missing(
    tmp_path: Path, there: list[str], message: str, hint: str
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in there:
        (programs / name).symlink_to(shutil.which(name) or "/bin/true")
    environment = {"PATH": str(programs), "JAVA_HOME": "", "OKA_CACHE": str(tmp_path / "cache")}
    code, said = oka(tmp_path / "broker", "up", "kafka", **environment)
    assert (code, message in said, f"hint: {hint}" in said) == (2, True, True), said
    assert not (tmp_path / "broker").exists()


@pytest.mark.parametrize("how", ["fails", "is killed"])
def test_a_fetch_that_does_not_end_well(tmp_path: Path, how: str) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "java").symlink_to("/bin/true")
    maven = programs / "mvn"
    last = "echo '[ERROR] no route to it'; exit 1" if how == "fails" else "exec sleep 1000"
    maven.write_text(f"#!/bin/sh\ntouch {tmp_path}/fetching\n{last}\n")
    maven.chmod(0o755)
    environment = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "JAVA_HOME": "",
        "OKA_CACHE": str(tmp_path / "cache"),
    }
    with begun(tmp_path / "broker", "up", "kafka", **environment) as process:
        if how == "is killed":
            wait_until((tmp_path / "fetching").exists)
            process.kill()
        _, said = process.communicate(timeout=300)
    if how == "fails":
        assert "Maven could not fetch the jars of kafka-" in said
        assert "[ERROR] no route to it" in said
        assert "hint: can this machine reach the repository" in said
    wait_until(lambda: not [*(tmp_path / "cache").iterdir()])
    assert not (tmp_path / "broker").exists()
