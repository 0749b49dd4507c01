"""Errors of Kafka's brokers: which of them pass by waiting."""

import pytest

from operators.kafka.errors import is_away, storage_error

kafka = pytest.importorskip("confluent_kafka", reason="Kafka's client is missing")


@pytest.mark.parametrize(
    ("name", "passes"),
    [
        ("FENCED_LEADER_EPOCH", True),
        ("UNKNOWN_LEADER_EPOCH", True),
        ("OFFSET_NOT_AVAILABLE", True),
        ("NOT_LEADER_FOR_PARTITION", True),
        ("_NOENT", True),
        ("_TRANSPORT", True),
        ("TOPIC_AUTHORIZATION_FAILED", False),
        ("_FENCED", False),
        ("MSG_SIZE_TOO_LARGE", False),
    ],
)
def test_a_broker_that_begins_again_is_waited_for(name: str, passes: bool) -> None:
    error = kafka.KafkaError(getattr(kafka.KafkaError, name))
    assert is_away(error) == passes
    assert storage_error("could not read", error, "host:9092").is_away == passes


@pytest.mark.parametrize("name", ["_SSL", "_TRANSPORT"])
def test_a_wrong_authority_is_told_whatever_the_client_calls_it(name: str) -> None:
    why = "ssl://host:9092/bootstrap: error:0A000086:SSL routines::certificate verify failed"
    error = kafka.KafkaError(getattr(kafka.KafkaError, name), why)
    told = storage_error("could not read", error, "host:9092")
    assert "certificate verify failed" in str(told)
    assert told.hint is not None
    assert "ssl_ca_location" in told.hint
