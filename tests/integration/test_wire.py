"""What can be read on the way between two tasks: nothing, unless encryption is off."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.network import Network, NetworkError, open_output_gate
from engine.partitioner import Forward

SECRET = "the word that nobody else may read"


class Wiretap:
    """A TCP proxy that writes down what passes through it, in both directions."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.seen = bytearray()
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            for here, there in ((client, server), (server, client)):
                self._threads.append(threading.Thread(target=self._pass_on, args=(here, there)))
                self._threads[-1].start()

    def _pass_on(self, here: socket.socket, there: socket.socket) -> None:
        with here:
            try:
                while data := here.recv(65536):
                    self.seen += data
                    there.sendall(data)
                there.shutdown(socket.SHUT_WR)
            except OSError:
                pass

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(timeout=300)
            assert not thread.is_alive()


@pytest.fixture
def networks(encryption: bool) -> Iterator[tuple[Network, Network]]:
    pair = [
        Network(["tcp://127.0.0.1:0"], encryption=encryption, connect_timeout_seconds=10)
        for _ in range(2)
    ]
    yield pair[0], pair[1]
    for network in pair:
        network.close()


def through(tap: Wiretap, endpoint: str) -> str:
    """The endpoint as the wiretap offers it: the same key, another port."""
    return re.sub(r":\d+$", f":{tap.port}", endpoint)


@pytest.mark.parametrize("encryption", [True, False])
def test_words_are_only_readable_without_encryption(
    networks: tuple[Network, Network], encryption: bool
) -> None:
    sender, receiver = networks
    port = int(receiver.endpoints[0].rpartition(":")[2])
    tap = Wiretap(("127.0.0.1", port))
    with ThreadPoolExecutor() as pool:
        connecting = [
            pool.submit(sender.connect, [(0, through(tap, receiver.endpoints[0]))], []),
            pool.submit(receiver.connect, [], [(0, sender.endpoints[0])]),
        ]
        for each in connecting:
            each.result(timeout=300)
        open_output_gate(sender, Forward(), [0]).emit([SECRET] * 100)
        finishing = pool.submit(sender.finish, 20)
        received: list[str] = []
        while (batch := receiver.receive()) is not None:
            received += batch.to_list()
        finishing.result(timeout=300)
    assert received == [SECRET] * 100
    sender.close()
    receiver.close()
    tap.close()
    assert len(tap.seen) > 100 * len(SECRET)
    assert (SECRET.encode() in tap.seen) is not encryption


@pytest.mark.parametrize("encryption", [True])
def test_an_impostor_is_not_talked_to(networks: tuple[Network, Network], encryption: bool) -> None:
    """Someone else listens where the peer should: it has a key, but not the peer's."""
    peer, impostor = networks
    key = peer.endpoints[0].removeprefix("tcp://").partition("@")[0]
    address = impostor.endpoints[0].partition("@")[2]
    victim = Network(["tcp://127.0.0.1:0"], connect_timeout_seconds=0.5)
    try:
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(impostor.connect, [], [(0, victim.endpoints[0])])
            with pytest.raises(NetworkError, match="channel 0 to tcp://127") as caught:
                victim.connect([(0, f"tcp://{key}@{address}")], [])
            assert key not in str(caught.value)
            impostor.cancel()
            assert waiting.exception(timeout=300) is not None
    finally:
        victim.close()


@pytest.mark.parametrize("encryption", [True, False])
def test_both_ends_encrypt_or_neither(networks: tuple[Network, Network], encryption: bool) -> None:
    network, _ = networks
    other = Network(["tcp://127.0.0.1:0"], encryption=not encryption)
    try:
        with pytest.raises(ValueError, match="key, and this end") as caught:
            network.connect([(0, other.endpoints[0])], [])
        assert "hint: " in str(caught.value)
    finally:
        other.close()
