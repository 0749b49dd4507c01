"""The engine's errors for those of Kafka's clients, each with what to do about it."""

from __future__ import annotations

from typing import Any

from engine.errors import StorageError


class LastError:
    """The last error that a client's threads told of: why nothing answers.

    It is the client's `error_cb`, which a poll calls.
    """

    def __init__(self) -> None:
        self.error: Any = None

    def __call__(self, error: Any) -> None:
        """Note the error."""
        if error.name() != "_ALL_BROKERS_DOWN":  # others say why
            self.error = error


def storage_error(
    what: str, error: Any, servers: str, last: LastError | None = None
) -> StorageError:
    """The error for a request to a broker; `what` says what could not be done, and with what.

    `error` is a `confluent_kafka.KafkaError`. Of a broker that does not answer it is one that
    `is_away`: the same request may pass later.
    """
    cause = error if last is None or last.error is None or not is_away(error) else last.error
    # Whether a connection's end by TLS is told as such, or as one of the transport, is by chance.
    name = "_SSL" if "SSL routines" in cause.str() else cause.name()
    if name in REFUSED:
        return StorageError(f"{what}: {cause.str()} ({name})", REFUSED[name], code=name)
    if is_away(error):
        return StorageError(
            f"{what}: {servers} has not answered: {cause.str()} ({name})",
            _HINT_AWAY,
            code="Unreachable",
        )
    return StorageError(f"{what}: {error.str()} ({name})", _HINTS.get(name), code=name)


def is_away(error: Any) -> bool:
    """Whether the broker did not answer, or cannot now."""
    return error.name() in _AWAY or error.retriable()


_AWAY = {
    *("_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_MSG_TIMED_OUT"),
    *(
        "_RESOLVE",
        "_WAIT_COORD",
        "_UNKNOWN_BROKER",
        "_DESTROY_BROKER",
        "REQUEST_TIMED_OUT",
        "NETWORK_EXCEPTION",
    ),
    *("BROKER_NOT_AVAILABLE", "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION"),
    # of a broker that has just begun again, until the client has its new epoch
    *("FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "OFFSET_NOT_AVAILABLE"),
    "_NOENT",  # the partition of a request has no leader yet
    *("COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"),
    *("NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "KAFKA_STORAGE_ERROR"),
}
_HINT_AWAY = (
    "is the broker running, and are this its address and security_protocol that of its listener? A "
    "broker also names the address that clients have to use (advertised.listeners): that one has "
    "to be reachable from every task, too"
)
REFUSED = {
    "_AUTHENTICATION": "security_protocol, sasl_mechanism, sasl_username and sasl_password have to "
    "be those of the listener at this address",
    "_SSL": "security_protocol='SSL' or 'SASL_SSL', with ssl_ca_location, suits listeners with TLS",
}
"""Errors of a connection that no waiting helps with, and what does."""
_NO_RIGHT = "give the user of the job the right: kafka-acls.sh --add --allow-principal User:NAME "
_MAKE = (
    "make it: kafka-topics.sh --create --topic NAME --partitions N --bootstrap-server ADDRESS; or "
    "have KafkaSink make it: partitions=N"
)
_FENCED = (
    "another process has begun with this transactional id: another driver goes on with the job, or "
    "a job on a copy of its checkpoints; or the transaction took longer than transaction_timeout_ms"
)
HINT_TOO_LARGE = (
    "message_max_bytes is the client's limit, max.message.bytes that of the topic: raise both, or "
    "make messages smaller"
)
_HINTS = {
    **dict.fromkeys(("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"), _FENCED),
    "UNKNOWN_TOPIC_OR_PART": _MAKE,
    "_UNKNOWN_TOPIC": _MAKE,
    "TOPIC_EXCEPTION": "a topic's name has letters, digits, '.', '_' and '-'",
    "TOPIC_AUTHORIZATION_FAILED": _NO_RIGHT + "--topic NAME --operation Describe, and "
    "--operation Read for a source, Write for a sink, Create to make a topic",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": _NO_RIGHT + "--operation Write --operation Describe "
    "--transactional-id oka- --resource-pattern-type prefixed",
    "CLUSTER_AUTHORIZATION_FAILED": _NO_RIGHT + "--operation IdempotentWrite --cluster",
    "GROUP_AUTHORIZATION_FAILED": _NO_RIGHT + "--operation Read --group NAME",
    "MSG_SIZE_TOO_LARGE": HINT_TOO_LARGE,
}
