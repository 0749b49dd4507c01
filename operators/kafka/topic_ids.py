"""The ids of topics: one that is deleted and made anew has its name, and is another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from operators.kafka.settings import import_kafka


def topic_ids(settings: Mapping[str, Any], topics: Iterable[str], seconds: float) -> dict[str, str]:
    """The id of each topic that is there; KafkaException where no broker answers in time.

    It has a client of its own, for one that reads does not hear of ids.
    """
    kafka = import_kafka("KafkaSource")
    from confluent_kafka.admin import AdminClient

    client = AdminClient({"log_level": 2, **settings})
    asked = client.describe_topics(kafka.TopicCollection([*topics]), request_timeout=seconds)
    found = {}
    try:
        for topic, answer in asked.items():
            error = answer.exception()
            if error is None:
                found[topic] = str(answer.result().topic_id)
            elif error.args[0].name() not in NO_TOPIC:
                raise error
    finally:
        del client  # which an error would keep, with its descriptors
    return found


NO_TOPIC = ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_ID")
