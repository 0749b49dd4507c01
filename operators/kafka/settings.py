"""Settings of Kafka's clients: librdkafka's own, which pass through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.errors import GraphError
from engine.installation.distribution import install_hint


def import_kafka(what: str) -> Any:
    """The module `confluent_kafka`; `GraphError` where it is not installed."""
    try:
        import confluent_kafka
    except ImportError:
        raise GraphError(
            f"{what} needs confluent-kafka, which is not installed", hint=install_hint("kafka")
        ) from None
    return confluent_kafka


def client_settings(
    what: str,
    servers: str | Sequence[str],
    settings: Mapping[str, Any],
    own: Mapping[str, str] = {},
) -> dict[str, Any]:
    """The settings of a client, by librdkafka's names. `GraphError` for those that are not its.

    A name may have underscores where librdkafka has dots. `own` are names that `what` sets itself,
    each with what to do instead.

    >>> client_settings("KafkaSink", ["a:9092", "b:9092"], {"linger_ms": 20})
    {'linger.ms': 20, 'bootstrap.servers': 'a:9092,b:9092'}
    """
    found = {name.replace("_", "."): value for name, value in settings.items()}
    for name, instead in {**own, "bootstrap.servers": "give servers="}.items():
        if name in found:
            raise GraphError(
                f"{what} got {name}={found[name]!r:.80}, which it sets itself", instead
            )
    listed = [servers] if isinstance(servers, str) else list(servers)
    if not listed or not all(isinstance(each, str) and each.strip() for each in listed):
        raise GraphError(
            f"{what} got servers={servers!r:.80}, expected addresses such as 'localhost:9092'"
        )
    return {**found, "bootstrap.servers": ",".join(listed)}
