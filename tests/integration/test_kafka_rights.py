"""`KafkaSink` at a broker that knows its users and what each may do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.errors import OperatorError
from engine.programs.kafka import free_ports
from engine.testing import run
from operators import source
from operators.kafka import KafkaSink
from operators.kafka.commit_table import TABLE
from operators.sources import Collection
from tests.kafka import Broker


def settings(plain: int, secure: int, controller: int) -> dict[str, str]:
    """A second listener, for alice, who may do nothing until she is told."""
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    listeners = {"PLAINTEXT": plain, "SECURE": secure, "CONTROLLER": controller}
    return {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items()),
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,SECURE:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secure.plain.sasl.jaas.config": f'{login} user_alice="secret";',
    }


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


def test_who_lacks_a_right_is_told_which(tmp_path: Path, kafka_programs: None) -> None:
    ports = free_ports(3)
    with Broker(tmp_path / "kafka", ports[0], settings=settings(*ports)) as broker:
        topic = broker.topic()

        def write(number: int, password: str = "secret", **how: Any) -> None:
            sink = KafkaSink(
                topic,
                f"127.0.0.1:{ports[1]}",
                security_protocol="SASL_PLAINTEXT",
                sasl_mechanism="PLAIN",
                sasl_username="alice",
                sasl_password=password,
            )
            run(source(Collection([number])).sink(sink).named("out"), **how)

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
