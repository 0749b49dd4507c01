"""Where Ray would look for a cluster, and whether there is one: servers that are none, or dumb."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

ray = pytest.importorskip("ray")

from engine.driver.ray import address as ray_address  # noqa: E402
from engine.driver.ray.address import check_ray_address  # noqa: E402
from engine.errors import StartError  # noqa: E402

SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
ANSWER = bytes([0, 0, 1, 1, 4, 0, 0, 0, 1]) + b"\x88"
REFUSED = bytes([0, 0, 15, 1, 5, 0, 0, 0, 1]) + b"\x0bgrpc-status\x0216"
UNIMPLEMENTED = bytes([0, 0, 15, 1, 5, 0, 0, 0, 1]) + b"\x0bgrpc-status\x0212"


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A process that is not connected, and remembers no cluster; the file that would."""
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray_address, "_PATIENCE_SECONDS", 0.5)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.delenv("RAY_USE_TLS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    processes(monkeypatch)  # and none of other tests
    (tmp_path / "ray").mkdir()
    return tmp_path / "ray" / "ray_current_cluster"


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=1) as server:
        yield server


def processes(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Those of all GCS that run on the machine."""
    monkeypatch.setattr(
        ray_address.services, "_find_address_from_flag", lambda _flag: set(addresses)
    )


def address(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def dead() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return address(server)


@pytest.fixture
def answering(listening: socket.socket) -> Iterator[Callable[[bytes], str]]:
    """The address of a server that waits for a word, says its own, byte by byte, and closes."""
    with ExitStack() as threads:

        def start(words: bytes) -> str:
            def serve() -> None:
                connection, _ = listening.accept()
                with connection, suppress(OSError):  # who asks may have heard enough
                    connection.recv(1 << 16)
                    for at in range(len(words)):
                        connection.sendall(words[at : at + 1])

            thread = threading.Thread(target=serve)
            thread.start()
            threads.callback(thread.join)
            return address(listening)

        yield start


def refusal(setting: str | None = None) -> str:
    with pytest.raises(StartError) as caught:
        check_ray_address(setting)
    return str(caught.value)


@pytest.mark.parametrize("setting", [None, "auto"])
def test_an_address_in_the_file_of_a_cluster_that_died(
    apart: Path, dead: str, setting: str | None
) -> None:
    apart.write_text(dead)
    assert refusal(setting) == (
        f"no Ray cluster answers at {dead}, the address in the file {apart}: Connection refused"
        "\n\nhint: the cluster that wrote it has ended: `ray stop` or `rm "
        f"{apart}` forgets it; `ray start --head` starts another, ray_address='local' one for "
        "this job alone"
    )


@pytest.mark.parametrize("setting", [None, "auto"])
def test_an_address_in_the_environment(
    apart: Path, dead: str, setting: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart.write_text("never:1")
    monkeypatch.setenv("RAY_ADDRESS", dead)
    told = refusal(setting)
    assert f"at {dead}, the address in the environment variable RAY_ADDRESS: Connection" in told
    assert "hint: unset RAY_ADDRESS" in told


def test_an_address_in_the_settings(
    apart: Path, dead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart.write_text("never:1")
    monkeypatch.setenv("RAY_ADDRESS", "never:2")
    told = refusal(dead)
    assert f"at {dead}, the address in the setting ray_address: Connection refused" in told
    assert "hint: is it still running" in told


def test_the_address_of_a_process_that_was_found(
    dead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes(monkeypatch, dead)
    assert f"at {dead}, that of a GCS process of this machine: Connection refused" in refusal(
        "auto"
    )
    assert not check_ray_address(None)  # which starts a cluster of its own


def test_no_cluster_to_find() -> None:
    assert "no Ray cluster was found" in refusal("auto")


@pytest.mark.parametrize(
    ("setting", "is_there"), [(None, False), ("local", False), ("module://somewhere", True)]
)
def test_what_needs_no_address_is_not_asked_for_one(setting: str | None, is_there: bool) -> None:
    assert check_ray_address(setting) == is_there


def test_a_file_that_is_none(apart: Path) -> None:
    apart.write_text("")
    assert "'' is the address in the file" in refusal()
    apart.unlink()
    apart.mkdir()
    assert "no Ray cluster was found: " in refusal()


@pytest.mark.parametrize(
    "setting", ["nonsense", ":6379", "host:", "host:port", "ray://host", "host:99999", "host:0"]
)
def test_what_is_no_address(setting: str) -> None:
    assert f"'{setting}' is the address in the setting ray_address, expected host:port" in refusal(
        setting
    )


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("nowhere.invalid:6379", ""),
        (f"{'a' * 70}.b:6379", "label"),
        ("[::1]:1", "Connection refused"),
        ("ray://127.0.0.1:1/?namespace=x", "Connection refused"),
    ],
)
def test_addresses_that_lead_nowhere(setting: str, problem: str) -> None:
    assert problem in refusal(setting)


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_a_server_that_is_stopped(listening: socket.socket, scheme: str) -> None:
    # The kernel accepts for a process that never will.
    assert "nothing was heard for" in refusal(scheme + address(listening))


def test_an_address_that_swallows_packets(listening: socket.socket) -> None:
    with ExitStack() as waiting:
        for _ in range(4):  # once its queue is full, the kernel drops what asks to connect
            connection = waiting.enter_context(socket.socket())
            connection.setblocking(False)
            connection.connect_ex(listening.getsockname())
        assert "nothing was heard for" in refusal(address(listening))


def test_a_name_that_takes_long_to_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    never = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_arguments: never.wait(10) and [])
    assert "nothing was heard for" in refusal("slow:6379")
    never.set()


@pytest.mark.parametrize("scheme", ["", "ray://"])
@pytest.mark.parametrize(
    "words", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"-ERR unknown command\r\n", b"220 smtp", b""]
)
def test_something_else_that_listens(
    words: bytes, scheme: str, answering: Callable[[bytes], str]
) -> None:
    assert "something else listens there" in refusal(scheme + answering(words))


def test_a_server_with_grpc_that_is_no_gcs(answering: Callable[[bytes], str]) -> None:
    assert "another server with gRPC listens there" in refusal(answering(SETTINGS + UNIMPLEMENTED))


def test_one_that_greets_and_hangs_up_is_none(answering: Callable[[bytes], str]) -> None:
    assert "closes the connection" in refusal(answering(SETTINGS))


def test_one_that_answers_is_one(answering: Callable[[bytes], str]) -> None:
    assert check_ray_address(answering(SETTINGS + SETTINGS + ANSWER))


def test_a_server_for_clients_tells_its_settings(answering: Callable[[bytes], str]) -> None:
    assert check_ray_address("ray://" + answering(SETTINGS))


def test_a_server_for_clients_may_know_no_such_question(answering: Callable[[bytes], str]) -> None:
    assert check_ray_address("ray://" + answering(SETTINGS + UNIMPLEMENTED))


def test_a_server_for_clients_need_not_answer(listening: socket.socket) -> None:
    def greet() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.sendall(SETTINGS)
            while connection.recv(1 << 16):
                continue

    thread = threading.Thread(target=greet)
    thread.start()
    assert check_ray_address("ray://" + address(listening))
    thread.join()


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        (
            {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "t" * 40},
            "refused the token of this process: see RAY_AUTH_TOKEN",
        ),
        ({"RAY_AUTH_MODE": "token"}, "asks for a token: none was found here"),
        ({"RAY_AUTH_TOKEN": "t" * 40}, "asks for a token: RAY_AUTH_MODE is not set here"),
        ({"RAY_AUTH_MODE": "disabled"}, "asks for a token: RAY_AUTH_MODE is 'disabled' here"),
    ],
)
@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_a_token_that_is_refused(
    answering: Callable[[bytes], str],
    scheme: str,
    environment: dict[str, str],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    token = environment.get("RAY_AUTH_TOKEN", "") if "RAY_AUTH_MODE" in environment else ""
    monkeypatch.setattr(ray_address, "_token", lambda _found: token)  # Ray remembers its own
    address = scheme + answering(SETTINGS + REFUSED)
    said = refusal(address)
    assert f"the Ray cluster at {address}, the address in the setting ray_address, {told}" in said
    assert "hint: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN" in said


@pytest.mark.parametrize("length", [1, 119, 120, 200, 20_000])
def test_the_question_has_a_token_of_any_length(length: int) -> None:
    question = ray_address._question(b"/a", "t" * length)
    assert b"Bearer " + b"t" * length in question
    size = int.from_bytes(question[:3], "big")
    assert question[9 + size + 3] == 0  # DATA follows
    text = ray_address._text(b"t" * length)
    assert text[-length:] == b"t" * length
    if length >= 127:
        left = sum((each & 127) << (7 * n) for n, each in enumerate(text[1:-length]))
        assert (text[0], 127 + left) == (127, length)
