"""Listeners of a broker: with TLS, with users and what each may do, with a wrong address."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engine.errors import OperatorError, StorageError
from engine.programs.ports import free_ports
from engine.testing import run
from operators import source
from operators.formats import Bytes
from operators.kafka import KafkaSink, KafkaSource
from operators.kafka.commit_table import TABLE
from operators.sinks import Collect
from operators.sources import Collection
from tests.kafka import Broker

NOBODY = "127.0.0.1:1"
CONTROLLER = ("CONTROLLER", "PLAINTEXT")
LISTENERS = {"PLAINTEXT": "PLAINTEXT", "USERS": "SASL_PLAINTEXT", "TLS": "SSL", "LOST": "PLAINTEXT"}


@dataclass
class Listeners:
    """A broker with more than one listener, and the addresses of the others."""

    broker: Broker
    folder: Path
    users: str
    """Its user alice may do nothing until she is told."""
    tls: str
    lost: str
    """It names an address to its clients that nobody reaches."""


@pytest.fixture(scope="module")
def listeners(
    kafka_programs: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Listeners]:
    folder = tmp_path_factory.mktemp("listeners")
    certificates(folder)
    ports = free_ports(5)
    addresses = [f"127.0.0.1:{port}" for port in ports]
    named = list(zip([*LISTENERS, "CONTROLLER"], addresses, strict=True))
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    settings = {
        "listeners": ",".join(f"{name}://{address}" for name, address in named),
        "advertised.listeners": ",".join(
            f"{name}://{NOBODY if name == 'LOST' else address}" for name, address in named[:-1]
        ),
        "controller.quorum.voters": f"1@{addresses[-1]}",
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}" for name, protocol in [*LISTENERS.items(), CONTROLLER]
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.users.plain.sasl.jaas.config": f'{login} user_alice="secret";',
        "listener.name.tls.ssl.keystore.type": "PEM",
        "listener.name.tls.ssl.keystore.location": str(folder / "broker.both"),
    }
    with Broker(folder / "kafka", ports[0], settings=settings) as broker:
        yield Listeners(broker, folder, *addresses[1:4])


def certificates(folder: Path) -> None:
    """An authority, another one, and the broker's key with a certificate of the first."""
    address = ["-addext", "subjectAltName=IP:127.0.0.1"]
    by = ["-CA", str(folder / "authority.pem"), "-CAkey", str(folder / "authority.key")]
    for name, more in [("authority", []), ("stranger", []), ("broker", [*address, *by])]:
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
        command += ["-subj", f"/CN={name}", "-keyout", str(folder / f"{name}.key")]
        command += ["-out", str(folder / f"{name}.pem"), *more]
        subprocess.run(command, check=True, capture_output=True)
    both = [(folder / f"broker.{part}").read_text() for part in ("key", "pem")]
    (folder / "broker.both").write_text("".join(both))


def allow(broker: Broker, kind: str, name: str, *operations: str) -> None:
    from confluent_kafka.admin import (
        AclBinding,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    admin = broker.admin()
    bindings = [
        AclBinding(
            ResourceType[kind],
            name,
            ResourcePatternType.PREFIXED,
            "User:alice",
            "*",
            AclOperation[operation],
            AclPermissionType.ALLOW,
        )
        for operation in operations
    ]
    for made in admin.create_acls(bindings).values():
        made.result(60)


def test_who_lacks_a_right_is_told_which(
    listeners: Listeners, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = listeners.broker
    topic = broker.topic()

    def write(number: int, password: str = "secret", **how: Any) -> None:
        sink = KafkaSink(
            topic,
            listeners.users,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_username="alice",
            sasl_password=password,
        )
        run(source(Collection([number])).sink(sink).named("out"), **how)

    with monkeypatch.context() as patched:
        patched.setattr("operators.kafka.topics.PATIENCE_SECONDS", 1.0)
        with pytest.raises(OperatorError, match=r"(?s)_AUTHENTICATION.*hint: .*sasl_password"):
            write(0, "wrong")
    with pytest.raises(OperatorError, match=r"(?s)TOPIC_AUTHORIZATION_FAILED.*hint: .*--topic"):
        write(0)
    allow(broker, "TOPIC", topic, "WRITE", "DESCRIBE")
    write(1)
    exactly = {"checkpoints": str(tmp_path / "kept"), "resume": "latest", "restarts": 0}
    with pytest.raises(OperatorError, match=rf"(?s)make topic '{TABLE}'.*hint: "):
        write(2, **exactly)
    allow(broker, "TOPIC", TABLE, "CREATE", "WRITE", "DESCRIBE", "READ")
    with pytest.raises(OperatorError, match=r"(?s)TRANSACTIONAL_ID_AUTHOR.*hint: .*oka- "):
        write(2, **exactly)
    allow(broker, "TRANSACTIONAL_ID", "oka-", "WRITE", "DESCRIBE")
    write(2, **exactly)
    assert [each.value() for each in broker.read(topic)] == [b"1", b"2"]


@pytest.mark.parametrize("checkpoints", [True, False])
def test_tls_with_an_authority_of_ones_own(
    checkpoints: bool, listeners: Listeners, tmp_path: Path
) -> None:
    topic = listeners.broker.topic()
    secure = {
        "security_protocol": "SSL",
        "ssl_ca_location": str(listeners.folder / "authority.pem"),
    }
    records = [b"%d" % n for n in range(1000)]
    settings = {"checkpoints": str(tmp_path)} if checkpoints else {}
    sink = KafkaSink(topic, listeners.tls, format=Bytes(), **secure)
    run(source(Collection(records)).sink(sink), **settings)
    read = KafkaSource(topic, listeners.tls, end="latest", **secure)
    read.validate_here()
    assert run(source(read).sink(Collect()))["collect"] == records


@pytest.mark.parametrize(
    ("listener", "how", "words"),
    [
        ("tls", "stranger.pem", r"(?s)certificate verify failed.*hint: .*ssl_ca_location"),
        ("tls", None, r"(?s)has not answered.*hint: .*security_protocol"),
        ("users", "authority.pem", r"(?s)SSL.*hint: .*security_protocol"),
    ],
)
def test_mistakes_with_tls(
    listener: str,
    how: str | None,
    words: str,
    listeners: Listeners,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("operators.kafka.reader._PATIENCE_SECONDS", 1.0)
    monkeypatch.setattr("operators.kafka.topics.PATIENCE_SECONDS", 1.0)
    servers, topic = getattr(listeners, listener), listeners.broker.topic()
    secure = (
        {"security_protocol": "SSL", "ssl_ca_location": str(listeners.folder / how)} if how else {}
    )
    with pytest.raises(StorageError, match=words):
        KafkaSource(topic, servers, **secure).validate_here()
    with pytest.raises((OperatorError, StorageError), match=words):
        run(source(Collection([1])).sink(KafkaSink(topic, servers, **secure)))


def test_a_listener_that_names_an_address_that_nobody_reaches(
    listeners: Listeners, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("operators.kafka.reader._PATIENCE_SECONDS", 2.0)
    read = KafkaSource(listeners.broker.topic(), listeners.lost)
    with pytest.raises(StorageError, match=r"(?s)127\.0\.0\.1:1.*advertised\.listeners"):
        read.validate_here()
